"""Does a plan keep its promises, over random models, clusters and options?"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from math import inf, isfinite
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from profiles import library
from profiles.errors import DocumentError
from tests.tuner.factories import GB, Shelf, gpt2, inline, llama, make_cluster, make_plan, make_profile
from tests.tuner.hand_memory import Device, peak_bytes, rank_parts
from tuner.configuration import Configuration
from tuner.errors import RequestError, TunerError, UnsupportedOptionError
from tuner.estimate import describe
from tuner.exports import export
from tuner.exports.errors import NotExpressibleError
from tuner.plan import Candidate, Plan
from tuner.planning import answer
from tuner.request import PlanRequest, read_request
from tuner.schedules import SYNCHRONOUS

LAWS = settings(max_examples=15, deadline=None, derandomize=True)

PLAIN = "chimera,dapple,gpipe,gems"
"""The schedules of the paper, whose memory `hand_memory` knows."""

TIGHT = st.sampled_from([1.1, 1.3, 2.0, 80.0])
"""GB of device memory: the framework of the presets takes one."""


@st.composite
def random_requests(draw: st.DrawFn) -> dict[str, Any]:
    """Options over a small model on a cluster; most of them have an answer."""
    family = draw(st.sampled_from([gpt2, llama]))
    config = family(
        blocks=draw(st.integers(1, 9)),
        hidden=draw(st.sampled_from([64, 256])),
        vocabulary=draw(st.sampled_from([50, 20_000])),
        tied=draw(st.booleans()),
    )
    options: dict[str, Any] = {
        "model": {"config": config},
        "sequence_length": draw(st.sampled_from([64, 512])),
        "devices": draw(st.integers(1, 20)),
        "mini_batch_size": draw(st.sampled_from([8, 12, 24, 32, 48, 96, 7])),
        "cluster": draw(st.sampled_from(["dgx-h100", "a100-8", "generic", "rtx-4090-8"])),
        "search": draw(st.sampled_from(["greedy", "exhaustive"])),
        "top": 100_000,
    }
    choices: dict[str, list[Any]] = {
        "schedules": ["chimera", "dapple,gpipe", "gems", "chimera,pipedream_2bw", "pipedream"],
        "recompute": ["none", "stage", "layer"],
        "optimizer_sharding": ["replicas"],
        "runs_on": ["megatron", "deepspeed", "torchtitan", "own"],
        "partition": ["even"],
        "rank_order": ["data_major"],
        "margin": [0.0, 0.3],
        "optimizer": ["sgd"],
    }
    for option, values in choices.items():
        if draw(st.integers(0, 3)) == 0:
            options[option] = draw(st.sampled_from(values))
    return options


def answered(options: dict[str, Any], *, memory: float = 80.0) -> Plan:
    """The plan; a request that cannot be asked is not an example."""
    try:
        return make_plan(shelf=Shelf(memory_bytes=int(memory * GB)), **options)
    except RequestError:
        assume(False)
        raise


def every_number(value: Any) -> Iterator[float]:
    """All numbers of a document."""
    if isinstance(value, dict):
        for item in value.values():
            yield from every_number(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from every_number(item)
    elif isinstance(value, float | int):
        yield value


@LAWS
@given(options=random_requests(), memory=TIGHT)
def test_every_candidate_uses_the_devices_and_the_mini_batch(options: dict[str, Any], memory: float) -> None:
    """W·B·N is the mini-batch, W·D and the idle ones are the devices, the stages hold all blocks."""
    plan = answered(options, memory=memory)
    for candidate in plan.candidates:
        samples = candidate.width * candidate.micro_batch_size * candidate.micro_batches
        assert samples == options["mini_batch_size"]
        assert candidate.width * candidate.depth <= options["devices"]
        assert sum(candidate.stage_layers) == plan.model.blocks
        assert len(candidate.stage_layers) == candidate.depth * candidate.chunks
        assert min(candidate.stage_layers) >= 1
        assert candidate.peak_memory_bytes <= memory * GB
    chosen = plan.chosen
    used = chosen.width * chosen.depth if chosen else 0
    assert used + plan.idle_devices == options["devices"]
    assert (chosen is None) == (not plan.candidates)
    assert (chosen is None) == (plan.smallest_change is not None)


@LAWS
@given(options=random_requests(), memory=TIGHT)
def test_the_numbers_of_a_plan_add_up(options: dict[str, Any], memory: float) -> None:
    """The breakdown sums to the iteration, rates follow from it, the fastest is first."""
    plan = answered(options, memory=memory)
    assert all(map(isfinite, every_number(plan.model_dump(mode="json"))))
    for candidate in plan.candidates:
        predicted, parts = candidate.predicted, candidate.predicted.breakdown
        total = parts.compute_s + parts.bubble_s + parts.p2p_s + parts.all_reduce_s
        assert total == pytest.approx(predicted.iteration_s, rel=1e-9)
        assert min(parts.compute_s, parts.bubble_s + 1e-12, parts.p2p_s, parts.all_reduce_s) >= 0
        assert predicted.throughput_samples_per_s * predicted.iteration_s == pytest.approx(
            options["mini_batch_size"]
        )
        assert predicted.tokens_per_s == pytest.approx(
            predicted.throughput_samples_per_s * options["sequence_length"]
        )
        assert 0 < predicted.mfu < 1
        assert -1e-9 <= predicted.bubble_ratio < 1
    speeds = [candidate.predicted.iteration_s for candidate in plan.candidates]
    assert speeds == sorted(speeds)
    if plan.chosen:
        assert plan.chosen.predicted.simulated
        chosen = plan.chosen.model_dump(exclude={"memory"})
        assert chosen == plan.candidates[0].model_dump(exclude={"memory"})
        assert plan.greedy_regret is not None
        assert plan.greedy_regret >= 0


@LAWS
@given(options=random_requests(), memory=TIGHT)
def test_every_layout_and_schedule_is_a_candidate_or_rejected_with_a_reason(
    options: dict[str, Any], memory: float
) -> None:
    """Each legal (W, D), with each schedule; the reasons hold numbers."""
    plan = answered(options, memory=memory)
    names = options.get("schedules", ",".join(SYNCHRONOUS)).split(",")
    fitting = {(c.width, c.depth, c.schedule) for c in plan.candidates}
    rejected = {
        (r.configuration.width, r.configuration.depth, r.configuration.schedule) for r in plan.rejected
    }
    for depth in range(1, min(options["devices"], plan.model.blocks) + 1):
        width = options["devices"] // depth
        for name in names:
            place = (width, depth, name)
            assert place in fitting or place in rejected or (width, depth, None) in rejected, place
    for rejection in plan.rejected:
        assert any(letter.isdigit() for letter in rejection.reason) or rejection.kind == "target"
    assert {(cell.width, cell.depth) for cell in plan.layouts} == {
        (options["devices"] // depth, depth)
        for depth in range(1, min(options["devices"], plan.model.blocks) + 1)
    }
    assert all((cell.reason is None) != (cell.schedule is None) for cell in plan.layouts)


@LAWS
@given(options=random_requests(), memory=TIGHT)
def test_the_exhaustive_search_is_never_worse(options: dict[str, Any], memory: float) -> None:
    """It finds something wherever greedy does, as fast or faster; greedy's regret is the difference."""
    greedy = answered(options | {"search": "greedy"}, memory=memory)
    everything = answered(options | {"search": "exhaustive"}, memory=memory)
    if greedy.chosen is None:
        return
    assert everything.chosen is not None
    ratio = greedy.chosen.predicted.iteration_s / everything.chosen.predicted.iteration_s
    assert ratio >= 1 - 1e-12
    assert greedy.greedy_regret == pytest.approx(ratio - 1, abs=1e-9)
    assert everything.greedy_regret == 0
    assert (greedy.greedy_best is None) == (greedy.greedy_regret == 0)
    fast: dict[tuple[int, int, str], float] = {}
    for candidate in everything.candidates:
        place = _place(candidate)
        fast[place] = min(_equation_1(candidate), fast.get(place, inf))
    for candidate in greedy.candidates:
        assert fast[_place(candidate)] <= _equation_1(candidate) * (1 + 1e-12)


def _equation_1(candidate: Candidate) -> float:
    """Seconds of an iteration by the model that the search goes by."""
    assert candidate.predicted.closed_form_s is not None
    return candidate.predicted.closed_form_s


def _place(candidate: Candidate) -> tuple[int, int, str]:
    return candidate.width, candidate.depth, candidate.schedule


@LAWS
@given(options=random_requests(), memory=st.sampled_from([1.02, 1.1, 1.3, 80.0]))
def test_greedy_takes_the_largest_power_of_two_that_fits(options: dict[str, Any], memory: float) -> None:
    """By memory recomputed by hand: first without, then with the leaner recomputation."""
    options = {"schedules": PLAIN} | options
    options |= {"search": "greedy", "partition": "even", "recompute": "auto", "runs_on": "any"}
    plan = answered(options, memory=memory)
    found = {_place(candidate): candidate for candidate in plan.candidates}
    faulty = {(r.configuration.width, r.configuration.depth) for r in plan.rejected if r.kind == "batch"}
    for depth in range(1, min(options["devices"], plan.model.blocks) + 1):
        width = options["devices"] // depth
        for name in options["schedules"].split(","):
            if (width, depth) in faulty or (name in ("chimera", "gems") and depth % 2):
                continue
            expected = _Greedy(options, plan, memory=memory).choose(name, width, depth)
            candidate = found.get((width, depth, name))
            got = candidate and (candidate.micro_batch_size, candidate.recompute)
            assert got == expected, (name, width, depth)


class _Greedy:
    """The greedy rule as the design words it."""

    def __init__(self, options: dict[str, Any], plan: Plan, *, memory: float) -> None:
        self._request = read_request(options).model_copy(update={"precision": "bfloat16"})
        self._plan, self._capacity = plan, int(memory * GB)
        self._framework = library.load_cluster(plan.cluster.name).software.framework_bytes
        self._description = describe(
            options["model"]["config"],
            sequence_length=options["sequence_length"],
            precision="bfloat16",
            attention="flash",
        )

    def choose(self, schedule: str, width: int, depth: int) -> tuple[int, str] | None:
        """The (B, recompute) that the rule takes."""
        share = self._request.mini_batch_size // width
        for recomputes in ("none",), ("stage", "layer"):
            for size in self._sizes(schedule, share, depth):
                count = share // size
                if schedule == "pipedream_2bw" and count < depth:
                    continue
                peaks = {mode: self._peak(schedule, (width, depth), size, mode) for mode in recomputes}
                leaner = min(peaks, key=lambda mode: peaks[mode])
                if peaks[leaner] <= self._capacity:
                    return size, leaner
        return None

    def _sizes(self, schedule: str, share: int, depth: int) -> list[int]:
        if schedule == "pipedream":
            return [share]
        least = {"gems": 2, "pipedream_2bw": depth}.get(schedule, depth)
        powers = [2**k for k in range(20) if share % 2**k == 0 and share // 2**k >= least]
        return powers[::-1] or [1]

    def _peak(self, schedule: str, layout: tuple[int, int], size: int, recompute: Any) -> int:
        width, depth = layout
        blocks = len(self._description.blocks)
        counts = [blocks // depth + (stage < blocks % depth) for stage in range(depth)]
        configuration = Configuration(
            schedule, width, depth, size, self._request.mini_batch_size // width // size, recompute
        )
        scalings = ["direct"]
        units = configuration.micro_batches / depth
        if schedule == "chimera" and units >= 2 and units.is_integer():
            scalings += ["doubling"] if units % 2 == 0 else []
            scalings += ["halving"] if size % 2 == 0 else []
        return min(
            peak_bytes(
                rank_parts(
                    self._description,
                    self._request,
                    configuration.with_(scaling=scaling),
                    stage_layers=counts,
                    device=Device(self._capacity, self._framework),
                )
            )
            for scaling in scalings
        )


@LAWS
@given(options=random_requests())
def test_the_same_request_gives_the_same_bytes(options: dict[str, Any]) -> None:
    """Within a process."""
    assert answered(options).to_json() == answered(options).to_json()


def test_another_process_gives_the_same_bytes() -> None:
    """With another hash seed."""
    options: dict[str, Any] = {"model": "gpt2-small", "cluster": "dgx-h100", "devices": 16}
    options |= {"mini_batch_size": 96}
    script = (
        "import json, sys; from profiles import library; from tuner.planning import answer; "
        "from tuner.request import read_request; "
        "sys.stdout.write(answer(read_request(json.loads(sys.argv[1])), library).to_json())"
    )
    run = [sys.executable, "-P", "-c", script, json.dumps(options)]
    texts = {
        subprocess.run(run, check=True, capture_output=True, text=True, env={"PYTHONHASHSEED": seed}).stdout
        for seed in ("1", "2")
    }
    assert texts == {make_plan(**options).to_json()}


@LAWS
@given(options=random_requests(), memory=TIGHT)
def test_no_asynchronous_schedule_without_naming_it(options: dict[str, Any], memory: float) -> None:
    """They change the training."""
    plan = answered({k: v for k, v in options.items() if k != "schedules"}, memory=memory)
    assert {candidate.schedule for candidate in plan.candidates} <= set(SYNCHRONOUS)


@pytest.mark.parametrize("schedule", ["pipedream", "pipedream_2bw"])
def test_a_named_asynchronous_schedule_is_a_candidate(schedule: str) -> None:
    """It is planned like any other."""
    plan = make_plan(schedules=schedule, devices=8, depth=4)
    assert plan.chosen is not None
    assert plan.chosen.schedule == schedule


@LAWS
@given(options=random_requests(), memory=TIGHT)
def test_megatron_gets_only_what_it_runs(options: dict[str, Any], memory: float) -> None:
    """1F1B, plain or interleaved, without stage recomputation, at a cost that is never negative."""
    options = {k: v for k, v in options.items() if k not in ("schedules", "recompute")}
    plan = answered(options | {"runs_on": "megatron"}, memory=memory)
    for candidate in plan.candidates:
        assert candidate.schedule in ("dapple", "interleaved")
        assert candidate.recompute in ("none", "layer")
    if plan.chosen:
        assert plan.target_cost is not None
        assert plan.target_cost >= 0
        anywhere = answered(options | {"runs_on": "any"}, memory=memory)
        assert anywhere.chosen is not None
        ratio = plan.chosen.predicted.iteration_s / anywhere.chosen.predicted.iteration_s
        assert plan.target_cost == pytest.approx(max(0.0, ratio - 1), abs=1e-9)
        assert anywhere.target_cost is None


@LAWS
@given(options=random_requests(), data=st.data())
def test_pins_are_kept(options: dict[str, Any], data: st.DataObject) -> None:
    """By their own names and by those of the frameworks."""
    depth = data.draw(st.integers(1, min(options["devices"], 4)))
    width = data.draw(st.integers(1, options["devices"] // depth))
    pins = {"width": width, "depth": depth, "micro_batch_size": data.draw(st.sampled_from([1, 2, 3]))}
    plan = answered(options | pins)
    for candidate in plan.candidates:
        assert (candidate.width, candidate.depth) == (width, depth)
        assert candidate.micro_batch_size == pins["micro_batch_size"]
    aliases = options | {
        "data_parallel_size": width,
        "pipeline_parallel_size": depth,
        "micro_batch_size": pins["micro_batch_size"],
        "global_batch_size": options["mini_batch_size"],
    }
    aliases = {name: value for name, value in aliases.items() if name != "mini_batch_size"}
    request = read_request({"model": "m", "cluster": "c"} | aliases)
    assert request == read_request({"model": "m", "cluster": "c"} | options | pins)


@pytest.mark.parametrize(("pins", "idle"), [({}, 0), ({"depth": 3}, 2), ({"width": 2, "depth": 2}, 4)])
def test_devices_that_no_layout_uses_are_told(pins: dict[str, Any], idle: int) -> None:
    """P − W·D."""
    assert make_plan(devices=8, **pins).idle_devices == idle


def test_one_device_is_one_stage() -> None:
    """P=1 is answered with W=D=1."""
    chosen = make_plan(devices=1).chosen
    assert chosen is not None
    assert (chosen.width, chosen.depth, chosen.stage_layers) == (1, 1, (4,))


@LAWS
@given(options=random_requests(), memory=st.sampled_from([0.9, 1.02, 1.05, 1.1]))
def test_the_smallest_change_fits_when_it_is_made(options: dict[str, Any], memory: float) -> None:
    """As a request of its own, which then has the named configuration among its candidates."""
    plan = answered(options, memory=memory)
    assume(plan.chosen is None)
    assert plan.smallest_change is not None
    text = plan.smallest_change.change
    needed = re.search(r"at least ([\d.]+) GB", text)
    capacity = float(needed[1]) * 1.006 if needed else memory
    found = answered(
        options | changes_told(text) | ({"search": "exhaustive"} if needed else {}), memory=capacity
    )
    assert found.chosen is not None, text
    named = plan.smallest_change.configuration.model_dump(exclude_none=True)
    assert any(named.items() <= candidate.model_dump().items() for candidate in found.candidates)


def changes_told(text: str) -> dict[str, Any]:
    """The options that a change in words names."""
    changes: dict[str, Any] = {}
    for option, value in re.findall(r"\((\w+)=([\w.]+)\)", text):
        changes[option] = float(value) if option == "margin" else value
    if "every synchronous schedule" in text:
        changes["schedules"] = None
    if "width and depth be chosen" in text:
        changes |= {"width": None, "depth": None}
    if "micro-batch size be chosen" in text:
        changes["micro_batch_size"] = None
    if devices := re.search(r"use ([\d,]+) devices", text):
        changes["devices"] = int(devices[1].replace(",", ""))
    return changes


TOGETHER = "keep less memory free (margin=0.05) and allow every synchronous schedule"


@pytest.mark.parametrize(
    ("memory", "options", "change"),
    [
        (1.2, {"recompute": "none"}, "allow recomputation (recompute=auto)"),
        (1.2, {"margin": 0.9}, "keep less memory free (margin=0.05)"),
        (1.2, {"micro_batch_size": 64}, "let the micro-batch size be chosen"),
        (1.2, {"width": 1, "depth": 1}, "let width and depth be chosen"),
        (1.5, {"devices": 1, "schedules": "chimera"}, "allow every synchronous schedule"),
        (1.5, {"devices": 1, "depth": 1, "schedules": "gems", "margin": 0.9}, TOGETHER),
        (1.1, {}, "use a device with at least 1.19 GB of memory"),
    ],
)
def test_no_more_is_changed_than_is_needed(memory: float, options: dict[str, Any], change: str) -> None:
    """One change alone where that is enough, and of several only those that count."""
    model = {"config": gpt2(blocks=8, hidden=512, vocabulary=1000)}
    fixed = {"sequence_length": 1024, "mini_batch_size": 512, "optimizer": "sgd", "precision": "float32"}
    plan = answered({"model": model} | fixed | options, memory=memory)
    assert plan.smallest_change is not None
    assert plan.smallest_change.change == change


def test_more_devices_are_the_next_remedy() -> None:
    """Doubled until it fits, and the optimizer sharded where that is needed."""
    plan = make_plan(model="llama-3-70b", devices=8, mini_batch_size=256)
    assert plan.chosen is None
    assert plan.smallest_change is not None
    assert "use 32 devices" in plan.smallest_change.change


def test_a_target_is_not_offered_what_it_cannot_run() -> None:
    """The device that would do is for a configuration of the target."""
    plan = make_plan(
        shelf=Shelf(memory_bytes=GB // 2), runs_on="megatron", devices=4, model={"config": llama()},
        sequence_length=64,
    )  # fmt: skip
    assert plan.smallest_change is not None
    assert "use a device with at least" in plan.smallest_change.change
    assert plan.smallest_change.configuration.schedule in ("dapple", "interleaved")


def test_a_mini_batch_that_nobody_divides_is_an_error_with_a_remedy_that_works() -> None:
    """The sizes next to it divide."""
    with pytest.raises(RequestError, match=r"a mini-batch of 5 .* W = 2, 4, 8 .* use a mini-batch of 4 or 6"):
        make_plan(mini_batch_size=5, devices=8)
    for size in (4, 6):
        assert make_plan(mini_batch_size=size, devices=8).chosen is not None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"depth": 5}, "depth 5 exceeds the model's 4 blocks: use D <= 4"),
        ({"depth": 3, "devices": 2}, "depth 3 needs as many devices, but devices is 2"),
        ({"width": 9}, "width 9 needs as many devices, but devices is 8"),
        ({"width": 1}, "means depth 8, more than the model's 4 blocks: use W >= 2 or pin a depth too"),
        ({"width": 4, "depth": 4}, "width 4 x depth 4 needs 16 devices, but devices is 8"),
        ({"devices": 64, "cluster": "v100-32"}, "64 exceed the 32 of cluster v100-32"),
        (
            {"micro_batch_size": 3, "devices": 1},
            "with B=3: use a mini-batch of 63 or 66, another micro-batch size",
        ),
        ({"accelerator": "p100-16gb", "precision": "bfloat16"}, "choose precision float16 or float32"),
        ({"model": {"config": gpt2()}}, "sequence_length is required with a config"),
        ({"model": {"profile": "gone"}}, "the profile that the request names was not found"),
        ({"why": "depth=many"}, "why='depth=many' is not understood: use width, depth"),
    ],
)
def test_what_cannot_be_asked_is_an_error_with_numbers(options: dict[str, Any], told: str) -> None:
    """What is wrong, and what to do."""
    with pytest.raises(RequestError) as error:
        make_plan(**options)
    assert told in str(error.value)


@pytest.mark.parametrize(
    "option",
    [{"tensor_parallel": 2}, {"context_parallel": 2}, {"expert_parallel": 8}, {"offload": "cpu"},
     {"compression": "top_k"}, {"schedules": "pipemare"}],
)  # fmt: skip
def test_what_is_not_modelled_is_refused_with_that_sentence(option: dict[str, Any]) -> None:
    """Never planned as if it were the default."""
    with pytest.raises(UnsupportedOptionError, match=r"not modelled yet|cannot be planned yet"):
        make_plan(**option)


def test_chimera_on_one_device_is_rejected_with_its_reason() -> None:
    """An even depth does not exist there."""
    plan = make_plan(devices=1, schedules="chimera")
    assert plan.chosen is None
    (rejection,) = plan.rejected
    assert rejection.reason == "chimera needs an even depth, and D = 1"


@pytest.mark.parametrize("margin", [0.0, 0.99])
def test_a_margin_reserves_its_share(margin: float) -> None:
    """None of it, or nearly all."""
    plan = make_plan(margin=margin, shelf=Shelf(memory_bytes=2000 * GB))
    assert plan.chosen is not None
    assert {rank.reserve_bytes for rank in plan.chosen.memory} == {round(margin * 2000 * GB)}


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        ("depth=4,schedule=dapple", "slower, most of it in"),
        ("D=3,f=1,schedule=chimera", "chimera needs an even depth, and D = 3"),
        ("W=1", "no legal configuration that could fit has width=1"),
        ("B=7", "no legal configuration that could fit has micro_batch_size=7"),
        ("depth=99", "no legal configuration that could fit has depth=99"),
    ],
)
def test_why_not_another_layout_is_answered(why: str, reason: str) -> None:
    """By the best there is and what it loses, or by the refusal that is about what was asked."""
    plan = make_plan(why=why)
    assert plan.why is not None
    assert reason in plan.why.reason
    if plan.why.best is None:
        return
    assert plan.chosen is not None
    assert plan.why.slower_by is not None
    assert plan.why.difference_s is not None
    lost = plan.why.best.predicted.iteration_s - plan.chosen.predicted.iteration_s
    assert sum(plan.why.difference_s.model_dump().values()) == pytest.approx(lost)
    assert plan.why.slower_by == pytest.approx(lost / plan.chosen.predicted.iteration_s)


def test_why_not_a_layout_that_does_not_fit_is_answered_in_gigabytes() -> None:
    """With what would make it fit."""
    plan = make_plan(model="llama-3-8b", devices=64, mini_batch_size=512, why="depth=1")
    assert plan.why is not None
    assert plan.why.best is None
    assert re.search(r"rank 0 needs \d+\.\d GB of 85\.5 GB, .*: use ", plan.why.reason)


def test_a_schedule_that_no_micro_batch_count_suits_is_rejected_with_the_numbers() -> None:
    """Not left out in silence."""
    plan = make_plan(schedules="pipedream_2bw", devices=4, depth=4, mini_batch_size=2)
    assert plan.chosen is None
    assert [rejection.kind for rejection in plan.rejected] == ["domain"]
    assert "N = 2 < D = 4" in plan.rejected[0].reason


def test_a_recomputation_that_the_target_lacks_is_rejected_as_the_targets() -> None:
    """Megatron has no recomputation of a whole stage from its input."""
    plan = make_plan(runs_on="megatron", recompute="stage", schedules="dapple")
    assert plan.chosen is None
    assert {rejection.kind for rejection in plan.rejected} == {"target"}
    assert "megatron has no recompute=stage, only none and layer" in plan.rejected[0].reason


def test_torchtitan_is_given_no_more_ranks_than_micro_batches_under_1f1b() -> None:
    """Its Schedule1F1B refuses N < D when it is made, which other schedules and frameworks do not."""
    asked: dict[str, Any] = {"schedules": "dapple", "devices": 4, "depth": 4, "search": "exhaustive"}
    plan = make_plan(runs_on="torchtitan", mini_batch_size=16, **asked)
    assert {candidate.micro_batches for candidate in plan.candidates} == {4, 8, 16}
    plan = make_plan(runs_on="torchtitan", mini_batch_size=2, **asked)
    (rejection,) = plan.rejected
    assert (plan.chosen, rejection.kind) == (None, "target")
    assert "torchtitan runs dapple with N >= D alone, and N = 2, D = 4" in rejection.reason
    elsewhere = make_plan(runs_on="deepspeed", mini_batch_size=2, **asked)
    assert elsewhere.chosen is not None
    with pytest.raises(NotExpressibleError, match="D=4 and N="):
        export(elsewhere, "torchtitan")


ABSURD: list[Any] = [
    None, True, False, 0, -1, 1.0, 64.5, 10**30, 10**400, float("nan"), float("inf"), "", "64", "x" * 10_000,
    "模型", "\x00", "\ud800", [], {}, [[]], {"a": 1}, [None], b"bytes",
]  # fmt: skip


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    changes=st.dictionaries(
        st.sampled_from([*PlanRequest.model_fields, "unknown", "模"]), st.sampled_from(ABSURD), max_size=2
    )
)
def test_no_request_ends_in_anything_but_a_plan_or_a_clear_error(changes: dict[str, Any]) -> None:
    """Whatever stands in any of its fields."""
    options = {"model": "tiny-gpt", "cluster": "dgx-h100", "devices": 4, "mini_batch_size": 16} | changes
    try:
        plan = answer(read_request(options), library)
    except (TunerError, DocumentError) as error:
        str(error).encode()
    else:
        json.loads(plan.to_json())


@LAWS
@given(
    latency=st.sampled_from([0.0, 1e9]), bandwidth=st.sampled_from([1e-9, 1e-3, 1e30]),
    node=st.sampled_from([1, 3, 8, 10**9, 10**18]), framework=st.sampled_from([0, 10**18]),
    compute_factor=st.sampled_from([0.001, 100.0]), search=st.sampled_from(["greedy", "exhaustive"]),
)  # fmt: skip
def test_an_absurd_cluster_gives_finite_numbers(
    latency: float, bandwidth: float, node: int, framework: int, compute_factor: float, search: str
) -> None:
    """Links that take years, nodes of a billion devices, a framework larger than any memory."""
    link = (latency, bandwidth)
    cluster = make_cluster(
        node_devices=node, p2p=link, collective=link, inside_p2p=link, inside_collective=link,
        framework_bytes=framework, compute_factor=compute_factor,
    )  # fmt: skip
    plan = make_plan(cluster=inline(cluster), devices=12, mini_batch_size=24, search=search)
    assert all(map(isfinite, every_number(json.loads(plan.to_json()))))
    assert (plan.chosen is None) == (framework > 0)


@pytest.mark.parametrize(
    "points",
    [
        [(1, 1e-15, 1e-15)],
        [(1, 1e9, 1e9)],
        [(10**18, 1.0, 2.0)],
        [(1, 5e-3, 1e-3), (2, 1e-3, 9e-3), (4, 3e-3, 1e-9)],
        [(1, 1e-9, 1e-9), (2, 1e9, 1e9)],
    ],
)
def test_an_absurd_profile_gives_finite_numbers(points: list[tuple[int, float, float]]) -> None:
    """One point, times that fall, jump, or are next to nothing."""
    asked: list[dict[str, Any]] = [{}, {"schedules": "pipedream,gems"}]
    asked.append({"schedules": "chimera", "search": "exhaustive"})
    for options in asked:
        plan = make_plan(profile=make_profile(*points), **options)
        assert plan.chosen is not None
        assert all(map(isfinite, every_number(json.loads(plan.to_json()))))


def test_a_device_of_one_byte_is_an_answer() -> None:
    """Nothing fits, and the device that would do is told."""
    plan = make_plan(shelf=Shelf(memory_bytes=1))
    assert plan.chosen is None
    assert plan.smallest_change is not None
    assert "use a device with at least" in plan.smallest_change.change


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("gpt2-small", {"devices": 720_720, "mini_batch_size": 720_720 * 64, "search": "exhaustive"}),
        ("gpt2-small", {"devices": 10_000_000, "mini_batch_size": 100_000_000}),
        (
            "llama-3.1-405b",
            {"devices": 16_384, "mini_batch_size": 16_384, "optimizer_sharding": "replicas"},
        ),
    ],
)
def test_very_many_devices_are_planned(model: str, options: dict[str, Any]) -> None:
    """Up to the largest that may be asked for."""
    plan = make_plan(model=model, top=5, **options)
    assert plan.chosen is not None
    assert 1 <= len(plan.candidates) <= 5 <= max(5, plan.candidates_considered)


def test_a_program_too_long_to_simulate_is_judged_by_equation_1() -> None:
    """A million micro-batches would take minutes; the plan says that it did not simulate them."""
    long = make_plan(devices=3, depth=3, width=1, micro_batch_size=1, mini_batch_size=1_000_000)
    short = make_plan(devices=3, depth=3, width=1, micro_batch_size=1, mini_batch_size=100)
    assert long.chosen is not None
    assert short.chosen is not None
    assert not long.chosen.predicted.simulated
    assert long.chosen.predicted.iteration_s == long.chosen.predicted.closed_form_s
    assert short.chosen.predicted.simulated
