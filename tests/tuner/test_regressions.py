"""Are regressions of a model caught and named, noise not taken for one, and the answer written for others?"""

import random
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from profiles import library
from profiles.errors import MalformedDocumentError
from profiles.timings import Environment, Profile
from tuner.errors import RequestError
from tuner.estimate import describe, estimate_timings
from tuner.regressions.answer import Change, CiAnswer, ModelAnswer
from tuner.regressions.comparison import compare, worth_repeating
from tuner.regressions.junit import junit_xml
from tuner.regressions.layers import best_of
from tuner.regressions.manifest import Thresholds, read_manifest
from tuner.regressions.records import Baseline, Layout, ModelRecord, Outcome, write_baseline
from tuner.regressions.starter import STARTER
from tuner.regressions.summary import markdown

LLAMA = {"model_type": "llama", "hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 4,
         "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 8000}  # fmt: skip
LAYOUT = Layout(
    schedule="dapple", width=2, depth=2, micro_batch_size=2, micro_batches=4, recompute="none",
    scaling="direct", pipe_pairs=1, chunks=1,
)  # fmt: skip
MACHINE = Environment(
    device="Some CPU", driver="Linux 6", software={"torch": "2.9.0", "python": "3.11"}, cores=2
)
THRESHOLDS = Thresholds()
_SIZES = (1, 2, 4, 8)


def make_profile(attention: Any = "flash", **config: Any) -> Profile:
    """Estimated times of a small Llama."""
    description = describe(LLAMA | config, sequence_length=256, precision="bfloat16", attention=attention)
    timings = estimate_timings(
        description, library.load_accelerator("rtx-4090-24gb"), micro_batch_sizes=_SIZES
    )
    return Profile(description=description, timings=timings)


def make_measured(seed: int, *, slower: str | None = None, environment: Environment = MACHINE) -> Profile:
    """The same, as measured on a noisy machine: laps scatter, runs drift, and now and then a layer is hit.

    Of ten runs one meets neighbours that slow all of it.
    """
    lots, true = random.Random(seed), make_profile()
    drift = lots.gauss(1, 0.02) * (1.15 if lots.random() < 0.1 else 1.0)
    types = []
    for entry in true.timings.types:
        points = []
        for point in entry.points:
            hit = 1.25 if lots.random() < 0.02 else 1.0
            factor = 100 * drift * hit * lots.gauss(1, 0.02) * (1.2 if entry.type == slower else 1.0)
            times = {"forward_s": point.forward_s * factor, "backward_s": point.backward_s * factor}
            points.append(point.model_copy(update=times | {"spread": 0.1, "repeats": 25}))
        types.append(entry.model_copy(update={"points": tuple(points), "provenance": "measured"}))
    timings = true.timings.model_copy(update={"types": tuple(types), "environment": environment})
    return true.model_copy(update={"timings": timings})


def make_record(profile: Profile, **outcome: Any) -> ModelRecord:
    """A record whose throughput follows from the times of a block."""
    points = next(entry for entry in profile.timings.types if entry.type == "block").points
    seconds = points[1].forward_s + points[1].backward_s
    values = {"chosen": LAYOUT, "throughput_samples_per_s": 1 / seconds, "iteration_s": seconds,
              "peak_memory_bytes": 10**9, "capacity_bytes": 2 * 10**9}  # fmt: skip
    return ModelRecord(
        name="llama", fingerprint="0" * 64, question={"devices": "4"}, profile=profile,
        outcome=Outcome(**values | outcome),
    )  # fmt: skip


def judged(before: ModelRecord | None, seeds: Iterator[int], **changes: Any) -> tuple[ModelAnswer, Profile]:
    """As `chimera ci` does, with a measurement for each seed that it takes; a baseline without `before`."""
    found: list[Profile] = []
    for seed in seeds:
        found.append(make_measured(seed, **changes))
        best = best_of(*found)
        answer = compare(before, make_record(best), THRESHOLDS, source="measured")
        if not worth_repeating(answer, best, THRESHOLDS, times=len(found), baseline=before is None):
            return answer, best
    raise AssertionError("seeds are counted without end")


def test_noise_is_no_regression_and_a_slower_layer_is() -> None:
    """Thirty re-runs of an unchanged model are all well; a block made 20 % slower is caught thirty times."""
    for run in range(30):
        before = make_record(judged(None, count(10 * run))[1])
        unchanged, _ = judged(before, count(1000 + 10 * run))
        assert (unchanged.status, unchanged.regressions) == ("ok", ())
        slower, _ = judged(before, count(1000 + 10 * run), slower="block")
        assert slower.status == "regressed"
        named = [change for change in slower.regressions if change.kind == "slower_layer"]
        assert named
        assert {change.what for change in named} == {"block"}


@pytest.mark.parametrize(
    ("changed", "kind", "named"),
    [
        ({"intermediate_size": 1720}, "shape", "block, intermediate size: 1,376 became 1,720"),
        ({"intermediate_size": 1720}, "more_memory", "more kept bytes at B=1"),
        ({"vocab_size": 10000}, "vocabulary", "vocabulary size: 8,000 became 10,000"),
        ({"attention": "eager"}, "attention", "the fused attention kernel was dropped"),
        ({"num_key_value_heads": 8}, "attention", "block, key/value heads: 2 became 8"),
        ({"num_attention_heads": 16}, "attention", "block, attention heads: 8 became 16"),
        ({"num_hidden_layers": 5}, "layers", "layers of type block: 4 became 5"),
    ],
)  # fmt: skip
def test_a_changed_model_is_caught_and_named(changed: dict[str, Any], kind: str, named: str) -> None:
    """A wider activation, a larger vocabulary, a dropped kernel, changed heads, another layer."""
    answer = compare(
        make_record(make_profile()), make_record(make_profile(**changed)), THRESHOLDS, source="estimated"
    )
    assert (answer.status, answer.cause) == ("regressed", "the model")
    assert any(change.kind == kind and named in change.message for change in answer.regressions), answer


def test_a_cheaper_model_is_told_and_passes() -> None:
    """A smaller vocabulary and fewer key/value heads."""
    changed = make_profile(vocab_size=4000, num_key_value_heads=1)
    answer = compare(make_record(make_profile()), make_record(changed), THRESHOLDS, source="estimated")
    assert answer.status == "ok"
    assert {change.kind for change in answer.changes} == {"vocabulary", "attention"}


def test_what_no_longer_fits_or_is_predicted_slower_regresses() -> None:
    """And another best configuration alone is only told."""
    before, other = make_record(make_profile()), LAYOUT.model_copy(update={"depth": 4})
    speed = before.outcome.throughput_samples_per_s or 0
    nothing = {
        "chosen": None,
        "throughput_samples_per_s": None,
        "iteration_s": None,
        "peak_memory_bytes": None,
    }
    for outcome, status, kind in (
        (nothing, "regressed", "no_longer_fits"),
        ({"throughput_samples_per_s": speed * 0.9}, "regressed", "lower_throughput"),
        ({"peak_memory_bytes": 1_100_000_000}, "regressed", "more_memory"),
        ({"chosen": other}, "ok", "other_configuration"),
    ):  # fmt: skip
        answer = compare(before, make_record(make_profile(), **outcome), THRESHOLDS, source="estimated")
        assert (answer.status, [change.kind for change in answer.changes]) == (status, [kind])


def test_another_device_or_driver_is_not_comparable() -> None:
    """However slow it is; and torch alone is named as the cause where it alone changed."""
    before = make_record(make_measured(1))
    for machine in ({"device": "Another CPU"}, {"driver": "Linux 7"}):
        moved = make_measured(2, slower="block", environment=MACHINE.model_copy(update=machine))
        answer = compare(before, make_record(moved), THRESHOLDS, source="measured")
        assert (answer.status, answer.regressions) == ("not_comparable", ())
        assert next(iter(machine)) in answer.changes[0].message
    software = MACHINE.model_copy(update={"software": MACHINE.software | {"torch": "2.10.0"}})
    answer, _ = judged(before, count(2), slower="block", environment=software)
    assert answer.status == "regressed"
    assert answer.cause == "torch 2.9.0 became 2.10.0: nothing else changed"


def test_a_machine_too_noisy_to_tell_is_named() -> None:
    """A check that could not have failed does not pass in silence."""
    measured = make_measured(1)
    types = tuple(
        entry.model_copy(
            update={"points": tuple(point.model_copy(update={"spread": 0.6}) for point in entry.points)}
        )
        for entry in measured.timings.types
    )
    noisy = measured.model_copy(update={"timings": measured.timings.model_copy(update={"types": types})})
    answer = compare(make_record(noisy), make_record(noisy), THRESHOLDS, source="measured")
    assert (answer.status, [change.kind for change in answer.changes]) == ("ok", ["noise"])
    assert "51% slower" in answer.changes[0].message


def test_a_baseline_that_was_edited_is_refused() -> None:
    """Its hash covers every record."""
    written = write_baseline((make_record(make_profile()),))
    assert Baseline.from_json(written.to_json()) == written
    with pytest.raises(MalformedDocumentError, match="edited or merged by hand"):
        Baseline.from_json(
            written.to_json().replace('"peak_memory_bytes":1000000000', '"peak_memory_bytes":1000000001')
        )


def test_reports_hold_whatever_a_message_holds() -> None:
    """JUnit XML parses and counts; Markdown keeps to its table."""
    change = Change(kind="error", what="x", regression=False, message="a <b> & \x00 | `c`\nd]]>")
    models = tuple(
        ModelAnswer(name=f"a|b {status}", status=status, changes=(change,))
        for status in ("ok", "regressed", "not_comparable", "not_measurable", "new")
    )
    answer = CiAnswer(models=models, baseline="b.json")
    suite = ElementTree.fromstring(junit_xml(answer))[0]
    assert [suite.get(key) for key in ("tests", "failures", "errors", "skipped")] == ["5", "1", "1", "1"]
    assert [[child.tag for child in case] for case in suite] == [
        ["system-out"],
        ["failure"],
        ["skipped"],
        ["error"],
        ["system-out"],
    ]
    table = [line for line in markdown(answer).splitlines() if line.startswith("|")]
    assert len(table) == 7
    assert all(line.replace("\\|", "").count("|") == 6 for line in table)
    long = markdown(answer.model_copy(update={"models": models * 1_000}))
    assert 55_000 < len(long) < 65_536
    assert long.startswith(markdown(answer)[:40])
    assert "too long for a comment" in long


def test_the_manifest_of_the_documentation_is_one() -> None:
    """It is read, and its defaults reach every model."""
    page = (Path(__file__).parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")
    text = page.partition("```toml\n")[2].partition("```")[0]
    assert [model.devices for model in read_manifest(text.encode(), name="docs/ci.md").models] == [64, 64]


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("[defaults]", "[defaults", "not TOML"),
        ('name = "bert"', 'name = "llama"', "two models are called 'llama'"),
        ('on = "estimate"', 'on = "gpu"', "'estimate', 'cpu' or 'cuda'"),
        ('on = "estimate"', "on = 1", "models.0.on"),
        ("devices = 64", "device = 64", "device"),
        ('"llama-2-7b"', '"model.py:build"', "factory"),
        ("time = 0.10", "time = nan", "finite"),
        ('{ optimizer_sharding = "replicas" }', "{ why = 'a' }", "plan.why"),
        ('cluster = "dgx-h100"', "", "cluster or an accelerator"),
    ],
)  # fmt: skip
def test_a_bad_manifest_is_refused_in_words(old: str, new: str, wanted: str) -> None:
    """Nothing is guessed."""
    assert read_manifest(STARTER.encode(), name="m").models[1].devices == 32
    assert old in STARTER
    with pytest.raises(RequestError, match=wanted):
        read_manifest(STARTER.replace(old, new).encode(), name="m")
