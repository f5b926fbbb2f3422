"""Is a model as good as its baseline, can that be told at all, and what alone changed?"""

from collections.abc import Iterator
from itertools import chain
from typing import Literal

from profiles.timings import Profile
from tuner.regressions.answer import Change, ModelAnswer, Source, Status
from tuner.regressions.layers import larger_layers, noise_hides, noise_of, slower_layers
from tuner.regressions.manifest import Thresholds
from tuner.regressions.outcomes import changed_outcome
from tuner.regressions.records import ModelRecord
from tuner.regressions.shapes import changed_shapes

BASELINE_TIMES = 2
"""So often at least is timed what others are compared with."""
MOST_TIMES = 4
"""And anything at most: neighbours that slow a layer rarely meet it four times in a row."""
_WORTH_SEEING = 0.2
_TIMED = {"slower_layer", "lower_throughput"}


def compare(
    before: ModelRecord | None, after: ModelRecord, thresholds: Thresholds, *, source: Source
) -> ModelAnswer:
    """The model against its record in the baseline; what was never recorded is new."""
    if before is None:
        return _answer(after, "new", (), cause=None, source=source)
    old, new = before.profile, after.profile
    # Of another device, driver or number of threads times say nothing of the model.
    apart = (
        *_differences("device", _machine(old), _machine(new), why="times of the two are not comparable"),
        *_differences(
            "question",
            before.question,
            after.question,
            why="the manifest asks another question than the baseline",
        ),
    )
    software = tuple(_differences("software", _versions(old), _versions(new), why="another version"))
    noise = noise_of(old, new)
    found = tuple(
        chain(
            changed_shapes(old.description, new.description),
            slower_layers(old, new, thresholds),
            larger_layers(old, new, thresholds),
            changed_outcome(before.outcome, after.outcome, thresholds, noise=noise),
        )
    )
    if apart:
        told = tuple(
            change.model_copy(update={"regression": False}) for change in found if change.kind not in _TIMED
        )
        return _answer(after, "not_comparable", (*apart, *software, *told), cause=None, source=source)
    failed = any(change.regression for change in found)
    return _answer(
        after,
        "regressed" if failed else "ok",
        (*found, *software, *_noisy(noise, thresholds)),
        cause=_cause(before, after, software) if failed else None,
        source=source,
    )


def worth_repeating(
    answer: ModelAnswer, best: Profile, thresholds: Thresholds, *, times: int, baseline: bool = False
) -> bool:
    """Whether to time a model once more, of which `best` is what so many `times` gave.

    What seems slower is timed until it does not, or until its noise hides nothing that the threshold shows;
    a baseline likewise, BASELINE_TIMES at least.
    """
    if times >= MOST_TIMES:
        return False
    slower = any(change.regression and change.kind in _TIMED for change in answer.changes)
    first = times < BASELINE_TIMES if baseline else slower
    return first or (times > 1 and noise_hides(best, thresholds))


def _answer(
    record: ModelRecord, status: Status, changes: tuple[Change, ...], *, cause: str | None, source: Source
) -> ModelAnswer:
    chosen = record.outcome.chosen
    return ModelAnswer(
        name=record.name,
        status=status,
        changes=changes,
        cause=cause,
        profile=source,
        profile_id=record.profile.fingerprint(),
        configuration=None if chosen is None else str(chosen),
        throughput_samples_per_s=record.outcome.throughput_samples_per_s,
        peak_memory_bytes=record.outcome.peak_memory_bytes,
    )


def _differences(
    kind: Literal["device", "question", "software"], was: dict[str, str], now: dict[str, str], *, why: str
) -> Iterator[Change]:
    """What is not as it was, by name."""
    for key in sorted(was.keys() | now.keys()):
        before, after = was.get(key), now.get(key)
        if before != after:
            yield Change(
                kind=kind,
                what=key,
                before=before,
                after=after,
                regression=False,
                message=f"{key.replace('_', ' ')} {before or 'none'} became {after or 'none'}: {why}",
            )


def _machine(profile: Profile) -> dict[str, str]:
    timings, environment = profile.timings, profile.timings.environment
    kind = {entry.provenance for entry in timings.types}
    machine = {"accelerator": timings.accelerator, "times": "/".join(sorted(kind))}
    if environment is not None:
        machine["device"] = environment.device
        machine |= {"driver": environment.driver} if environment.driver else {}
        machine |= {"threads": str(environment.threads)} if environment.threads else {}
        cuda = environment.software.get("cuda")
        machine |= {"cuda": cuda} if cuda else {}
    return machine


def _versions(profile: Profile) -> dict[str, str]:
    environment = profile.timings.environment
    return {} if environment is None else {k: v for k, v in environment.software.items() if k != "cuda"}


def _noisy(noise: float, thresholds: Thresholds) -> Iterator[Change]:
    """Where the measurements hide what a planted fifth would look like, that is said."""
    hidden = thresholds.spreads * noise
    if hidden > max(thresholds.time, _WORTH_SEEING):
        yield Change(
            kind="noise",
            what="measurement",
            after=hidden,
            allowed=thresholds.time,
            regression=False,
            message=f"the machine is noisy: of some layer only more than {hidden:.0%} slower can be told "
            "from noise; give a larger budget or a quieter machine",
        )


def _cause(before: ModelRecord, after: ModelRecord, software: tuple[Change, ...]) -> str:
    """What alone changed."""
    was, now = (each.profile.description.model_copy(update={"name": "model"}) for each in (before, after))
    same = was == now
    if software:
        versions = ", ".join(f"{change.what} {change.before} became {change.after}" for change in software)
        return f"{versions}: nothing else changed" if same else f"the model, and {versions}"
    return "the code of a layer, of the same shape: sizes and software are the same" if same else "the model"
