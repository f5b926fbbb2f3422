"""What does a plan make of measured profiles, sound and hostile ones?"""

from typing import Any

import numpy as np
import pytest

from profiles import library
from profiles.errors import MalformedDocumentError
from profiles.measurement import MeasuredConfiguration, Measurement, Measurements
from profiles.timings import Profile
from tests.tuner.factories import make_plan
from tuner.configuration import Configuration
from tuner.enactment import expect
from tuner.errors import RequestError
from tuner.evaluated import Variant
from tuner.evaluation import Evaluator
from tuner.inputs import gather
from tuner.plan import Plan
from tuner.request import read_request
from tuner.schedules import find_scheme
from tuner.score import score
from tuner.space import Layout

KINDS = ("embedding", "block", "head", "loss")


def layer(name: str, kind: str) -> dict[str, Any]:
    size = {"per_sample": 1_000_000}
    flops = 0 if kind in {"embedding", "loss"} else 1_000_000_000
    return {
        "name": name, "type": kind, "kind": kind, "parameters": 1_000, "active_parameters": 1_000,
        "forward_flops": flops, "backward_flops": 2 * flops, "activation_bytes": size,
        "transient_bytes": size, "cut_bytes": size,
    }  # fmt: skip


def point(size: int, scale: float = 1.0, **changes: Any) -> dict[str, Any]:
    times = {"forward_s": 0.05 * size * scale, "backward_s": 0.1 * size * scale}
    return {"micro_batch_size": size} | times | changes


def profile(*points: dict[str, Any]) -> Profile:
    """Four blocks between an embedding, a head and a loss, all timed with the same points."""
    layers = [
        layer("embedding", "embedding"),
        *(layer(f"layers.{i}", "block") for i in range(4)),
        layer("head", "head"),
        layer("loss", "loss"),
    ]
    shape = {"sequence_length": 64, "precision": "float32", "attention": "eager"}
    named = {"name": "own", "family": "own", "hidden_size": 64, "vocabulary_size": 100, "layers": layers}
    types = [{"type": kind, "provenance": "measured", "points": list(points)} for kind in KINDS]
    timed = {"name": "own", "accelerator": "cpu", "software": "torch", "types": types}
    return Profile.from_value({"description": named | shape, "timings": timed | shape})


def planned(taken: Profile, **options: Any) -> Plan:
    asked: dict[str, Any] = {
        "devices": 2,
        "mini_batch_size": 8,
        "cluster": "local-cpu",
        "width": 1,
        "depth": 2,
        "model": {"profile": taken.fingerprint()},
    } | options
    return make_plan(profile=taken, **asked)


def notes(taken: Profile, **options: Any) -> list[str]:
    return list(planned(taken, **options).provenance.notes)


def zb_h1_iteration_s(*, input_backward_s: float | None, weight_backward_s: float | None) -> float:
    """Predicted for layers whose whole backward takes 0.1 s."""
    parts = {"input_backward_s": input_backward_s, "weight_backward_s": weight_backward_s}
    chosen = planned(profile(point(1, **parts)), schedules=["zb_h1"], micro_batch_size=1).chosen
    assert chosen is not None
    return chosen.predicted.iteration_s


def test_a_split_backward_takes_what_its_parts_were_measured_to_take() -> None:
    """Parts longer than the whole backward make the schedule slower; half each where one is unknown."""
    even = zb_h1_iteration_s(input_backward_s=0.05, weight_backward_s=0.05)
    longer = zb_h1_iteration_s(input_backward_s=0.06, weight_backward_s=0.06)
    assert longer > even * 1.05
    assert zb_h1_iteration_s(input_backward_s=0.06, weight_backward_s=None) == pytest.approx(even)


def test_a_split_schedule_gains_by_what_can_be_deferred() -> None:
    """ZB-H1 fills its bubble with weight gradients: nothing to defer is slower than half."""

    def iteration(weight_s: float) -> float:
        return zb_h1_iteration_s(input_backward_s=0.1 - weight_s, weight_backward_s=weight_s)

    assert iteration(0.05) < iteration(0.0) * 0.99
    assert iteration(0.05) < iteration(0.001)


def test_a_sound_profile_raises_no_doubts() -> None:
    """Neither does one size only; other sizes are flagged as extrapolated."""
    assert notes(profile(point(1), point(2), point(4)), micro_batch_size=2) == []
    extrapolated = notes(profile(point(1)), micro_batch_size=4)
    assert extrapolated == ["times of block at B=4 are extrapolated from 1..1"]


def test_sizes_between_which_a_profile_has_gaps_are_interpolated() -> None:
    """On the line between the neighbours, so a linear profile gives the same plan with and without."""
    sparse = planned(profile(point(1), point(8)), micro_batch_size=4).chosen
    dense = planned(profile(point(1), point(2), point(4), point(8)), micro_batch_size=4).chosen
    assert sparse is not None
    assert dense is not None
    assert sparse.predicted.iteration_s == pytest.approx(dense.predicted.iteration_s, rel=1e-12)
    told = notes(profile(point(1), point(8)), micro_batch_size=4)
    assert told == ["times of block at B=4 are interpolated between those at B=1, 8"]


@pytest.mark.parametrize("search", ["greedy", "exhaustive"])
def test_extrapolation_is_told_of_what_is_chosen(search: str) -> None:
    """Not of what came first before the simulation."""
    taken = profile(point(1), point(2), point(4, 0.3))
    for mini_batch in (8, 32, 64):
        asked = {"devices": 4, "mini_batch_size": mini_batch, "width": None, "depth": None, "search": search}
        plan = planned(taken, **asked)
        assert plan.chosen is not None
        size = plan.chosen.micro_batch_size
        told = [note for note in plan.provenance.notes if "extrapolated" in note]
        assert told == ([f"times of block at B={size} are extrapolated from 1..4"] if size > 4 else [])


def test_a_run_is_expected_with_what_is_doubtful_in_its_profile() -> None:
    """Sizes that were not measured, and times of another device, which are not used."""
    taken = profile(point(1, 1e6))
    ran = Configuration(schedule="dapple", width=1, depth=2, micro_batch_size=2, micro_batches=4)
    asked = {"model": {"profile": taken.fingerprint()}, "devices": 2, "mini_batch_size": 8}
    told = expect(read_request({**asked, "cluster": "local-cpu"}), ran, library, profile=taken).notes
    assert any("are the times in seconds" in note for note in told)
    assert told[-1] == "times of block at B=2 are extrapolated from 1..1"
    elsewhere = expect(read_request({**asked, "cluster": "piz-daint"}), ran, library, profile=taken).notes
    assert elsewhere == ("the profile was taken on cpu: times on p100-16gb are estimated",)


@pytest.mark.parametrize("scale", [1e9, 1e6, 1e-6, 1e-9])
def test_times_in_other_units_are_told(scale: float) -> None:
    """Nanoseconds for seconds, or the other way round: what the accelerator's peak gives stands beside."""
    told = notes(profile(point(1, scale), point(2, scale)), micro_batch_size=2)
    assert any("are the times in seconds" in note for note in told)


def test_a_score_tells_what_is_doubtful_in_its_profiles() -> None:
    """As a plan does: the units, and sizes beyond those measured."""
    taken = profile(point(1, 1e6))
    shape = taken.description
    ran = MeasuredConfiguration(schedule="dapple", width=1, depth=2, micro_batch_size=2, mini_batch_size=8)
    row = Measurement(
        model=shape.name, cluster="local-cpu", devices=2, sequence_length=shape.sequence_length,
        precision=shape.precision, configuration=ran, status="ok", iteration_s=1.0,
    )  # fmt: skip
    notes = score(Measurements(source="made up", measurements=(row,)), library, profiles=[taken]).notes
    assert any("are the times in seconds" in note for note in notes)
    assert any("at B=2 are extrapolated" in note for note in notes)


def test_times_that_fall_are_told() -> None:
    """Twice the samples in half the time is a disturbed profile."""
    told = notes(profile(point(1), point(2, 0.1), point(4)), micro_batch_size=2)
    assert any("fall from B=1 to B=2" in note for note in told)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"activation_bytes": 0},
            "B=1 is said to keep 0 bytes, where its description has 1,000,000",
        ),
        ({"activation_bytes": 1_000}, "to keep 1,000 bytes"),
        ({"transient_bytes": 0}, "block at B=1 is said to need for a while 0 bytes"),
        ({"input_backward_s": 9.0, "weight_backward_s": 1.0}, "take 10 s for both parts of its backward"),
        ({"input_backward_s": 0.0, "weight_backward_s": 1e-9}, "take 1e-09 s for both parts"),
        ({"spread": 3.0}, "block at B=1 spread by 300%"),
        ({"forward_s": 1e-6}, "1e-06 and 0.1 s forward and backward"),
    ],
)
def test_what_no_layer_does_is_told_of_bytes_parts_and_spreads(changes: dict[str, Any], told: str) -> None:
    """With what it was said and what it was to be, whatever the profile calls itself."""
    taken = profile(point(1, **changes))
    value = taken.model_dump(mode="json", exclude_none=True)
    for entry in value["timings"]["types"]:
        entry["provenance"] = "published"
    for each in (taken, Profile.from_value(value)):
        assert any(told in note for note in notes(each, micro_batch_size=1))


@pytest.mark.parametrize("step_s", [0.0, 1e-12, 1e3])
def test_an_optimizer_step_in_another_unit_is_told(step_s: float) -> None:
    """Of a layer with parameters, neither nothing nor minutes."""
    value = profile(point(1)).model_dump(mode="json", exclude_none=True)
    value["timings"]["types"][1]["update_s"] = step_s
    told = notes(Profile.from_value(value), micro_batch_size=1)
    assert told == [
        f"an optimizer step of block is said to take {step_s:.3g} s for 1,000 parameters: is it in seconds?"
    ]


def test_kept_bytes_that_fall_are_told() -> None:
    """Twice the samples cannot keep less."""
    told = notes(profile(point(1, activation_bytes=10**6), point(2, activation_bytes=5 * 10**5)))
    assert any("bytes kept by block fall from B=1 to B=2, 1,000,000 to 500,000" in note for note in told)


def test_a_backward_without_a_part_is_planned() -> None:
    """Every schedule takes a weight gradient, or an input gradient, of no time at all."""
    for parts in ((0.1, 0.0), (0.0, 0.1)):
        taken = profile(point(1, input_backward_s=parts[0], weight_backward_s=parts[1]))
        assert planned(taken, schedules=["chimera_split"], micro_batch_size=1).chosen


@pytest.mark.parametrize(
    ("points", "reason"),
    [
        ((point(1, input_backward_s=0.0, weight_backward_s=0.0),), "are both 0 at B=1"),
        ((point(1, forward_s=0.0),), "forward_s"),
        ((point(1, backward_s=-1.0),), "backward_s"),
        ((point(2), point(1)), "must rise"),
        ((point(1), point(1)), "must rise"),
        ((), "points"),
    ],
)
def test_profiles_that_cannot_be_are_refused(points: tuple[dict[str, Any], ...], reason: str) -> None:
    """Zeros, negative times, repeated or falling sizes, and no sizes at all."""
    with pytest.raises(MalformedDocumentError, match=reason):
        profile(*points)


def test_layers_of_one_type_that_differ_are_refused() -> None:
    """Duplicates must be alike: one is timed for all."""
    value = profile(point(1)).model_dump(mode="json", exclude_none=True)
    value["description"]["layers"][2]["parameters"] = 7
    with pytest.raises(MalformedDocumentError, match="share type 'block' but differ"):
        Profile.from_value(value)


def test_a_plan_says_which_profile_it_was_made_with() -> None:
    """By its content: times that differ in one digit give another hash, and so do the timings used."""
    one, other = profile(point(1)), profile(point(1, 1.0 + 1e-12))
    hashes = [planned(taken).provenance.hashes for taken in (one, other)]
    assert [each["profile"] for each in hashes] == [one.fingerprint(), other.fingerprint()]
    assert hashes[0]["timings"] != hashes[1]["timings"]
    assert hashes[0]["model"] == hashes[1]["model"]
    assert "profile" not in make_plan(model="tiny-gpt", cluster="local-cpu").provenance.hashes


def test_a_profile_that_is_not_the_one_named_is_refused() -> None:
    """Its content and the name of the one that was meant are both told."""
    meant, changed = profile(point(1)), profile(point(1, 1.1))
    with pytest.raises(RequestError, match="was changed, or is another") as refused:
        planned(changed, model={"profile": meant.fingerprint()})
    assert meant.fingerprint() in str(refused.value)
    assert changed.fingerprint() in str(refused.value)


def test_a_changed_profile_has_another_fingerprint() -> None:
    """So that a plan names exactly what it was made from."""
    assert profile(point(1)).fingerprint() != profile(point(1, 1.0 + 1e-12)).fingerprint()


def stepped(*seconds: float | None, optimizer: str = "adam") -> Profile:
    """The profile with measured optimizer steps of the embedding, a block, the head and the loss."""
    document = profile(point(1), point(8)).model_dump(mode="json", exclude_none=True)
    document["timings"]["optimizer"] = optimizer
    for entry, update_s in zip(document["timings"]["types"], seconds, strict=True):
        if update_s is not None:
            entry["update_s"] = update_s
    return Profile.from_value(document)


def update_times(taken: Profile, **options: Any) -> tuple[float, float]:
    """Seconds of the optimizer step: closed form of the slowest rank, and the stages' of the simulation."""
    configuration = Configuration("dapple", width=1, depth=2, micro_batch_size=2, micro_batches=4)
    asked = {
        "model": {"profile": taken.fingerprint()}, "devices": 2, "mini_batch_size": 8, "cluster": "local-cpu",
        "partition": "even",
    } | options  # fmt: skip
    request = read_request(asked)
    expected = expect(request, configuration, library, profile=taken)
    inputs = gather(request, library, profile=taken)
    evaluator = Evaluator(inputs)
    variant = Variant(find_scheme("dapple"), Layout(1, 2), "direct", 1, "none")
    evaluated = evaluator.evaluate(variant, np.array([2]))
    assert evaluated is not None
    return float(evaluated.times.update_s[0]), float(expected.costs.update_s.max())


def test_measured_optimizer_steps_are_used() -> None:
    """Embedding and two blocks against two blocks and the head: the slower rank's sum, as it was measured."""
    closed, simulated = update_times(stepped(0.1, 0.02, 0.3, 0.0))
    assert closed == pytest.approx(0.34)
    assert simulated == pytest.approx(0.34)


@pytest.mark.parametrize(
    ("taken", "options"),
    [(stepped(0.1, None, 0.3, 0.0), {}), (stepped(0.1, 0.02, 0.3, 0.0), {"optimizer": "sgd"})],
    ids=["a layer was not measured", "another optimizer was measured"],
)
def test_steps_are_estimated_unless_all_are_measured(taken: Profile, options: dict[str, Any]) -> None:
    """By the bytes of weights, gradients and state, as without any."""
    assert update_times(taken, **options) == update_times(profile(point(1), point(8)), **options)
    assert update_times(taken, **options)[0] < 1e-3


def test_what_a_runtime_adds_is_added_to_every_forward_and_backward() -> None:
    """To a forward that is run again as well, which makes two of a backward; not once for every layer."""
    taken = profile(point(1), point(8))
    plain = library.load_cluster("local-cpu")
    software = plain.software.model_copy(update={"operation_overhead_s": 0.25})
    slower = plain.model_copy(update={"software": software})
    costs = []
    for cluster in (plain, slower):
        asked = {
            "model": {"profile": taken.fingerprint()}, "devices": 2, "mini_batch_size": 8,
            "cluster": {"document": cluster},
        }  # fmt: skip
        configuration = Configuration(
            "dapple", width=1, depth=2, micro_batch_size=2, micro_batches=4, recompute="stage"
        )
        costs.append(expect(read_request(asked), configuration, library, profile=taken).costs)
    assert (costs[1].forward_s - costs[0].forward_s).tolist() == pytest.approx([0.25, 0.25])
    assert (costs[1].backward_s - costs[0].backward_s).tolist() == pytest.approx([0.5, 0.5])
