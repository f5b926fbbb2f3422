"""How did a model do over time? Its studies, checks, trials and profiles, and what got worse."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from api.documents.history import History, Kept
from api.reports.axes import linear, moments
from api.reports.plots import BOTTOM, COLOURS, LEFT, RIGHT, TOP, Plot
from api.reports.quantities import NO_BREAK, digits, percent, schedule, seconds, si
from api.storage.tables import Study
from api.studies.trials import as_row
from profiles.document import canonical_json
from profiles.timings import Profile

DRAWN = 6
SHOWN = 50
_WORSE = 0.05
"""A study or profile that is worse by more than this than the one before it is told as worse."""


@dataclass(frozen=True)
class Moment:
    """A value at a moment, of one of several lines."""

    at: datetime
    value: float
    line: str
    words: str
    is_bad: bool = False
    joined: str = ""
    """Moments of a line are joined where this is equal."""


@dataclass
class Entry:
    """A row of a table."""

    cells: dict[str, Any]
    change: float | None = None
    """From the one before it of the same kind; positive is better."""
    notes: list[str] = field(default_factory=list)

    @property
    def is_worse(self) -> bool:
        """By more than noise usually is."""
        return self.change is not None and self.change < -_WORSE


def history_page(model: str, history: History) -> dict[str, Any]:
    """What `history.html` shows."""
    studies, profiles = _studies(history.studies), _profiles(history.profiles)
    return {
        "model": model,
        "history": history,
        "studies": studies[:SHOWN],
        "profiles": profiles[:SHOWN],
        "checks": history.checks[:SHOWN],
        "shown": SHOWN,
        "pictures": [
            picture
            for picture in (
                _picture("Checks in CI: predicted throughput", "samples/s", _checked(history.checks)),
                _picture("Studies: predicted throughput", "samples/s", _planned(studies)),
                _picture("Trials: measured iteration", "time", _tried(history), write=_time),
                _picture("Profiles: all layers once", "time", _timed(profiles), write=_time),
            )
            if picture is not None
        ],
    }


def whole_model_s(profile: Profile) -> dict[int, float]:
    """Forward and backward of every layer once, by micro-batch size, where all layers were timed at it."""
    counts = Counter(layer.type for layer in profile.description.layers)
    totals: dict[int, list[float]] = defaultdict(list)
    for entry in profile.timings.types:
        for point in entry.points:
            if counts[entry.type]:
                totals[point.micro_batch_size].append(
                    counts[entry.type] * (point.forward_s + point.backward_s)
                )
    return {size: sum(each) for size, each in totals.items() if len(each) == len(counts)}


def _picture(
    title: str, unit: str, found: Sequence[Moment], *, write: Callable[[float], str] = "{:,.4g}".format
) -> dict[str, Any] | None:
    """A line for each of the kinds that there are most of; None where there is nothing to draw."""
    lines = [line for line, _ in Counter(moment.line for moment in found).most_common(DRAWN)]
    drawn = [moment for moment in found if moment.line in lines]
    if not drawn:
        return None
    x = moments("UTC", [moment.at.timestamp() for moment in drawn], start=LEFT, end=RIGHT)
    y = linear(unit, [moment.value for moment in drawn], start=BOTTOM, end=TOP, write=write)
    plot = Plot(f"{title}, over time", x, y)
    keys = []
    for line, colour in zip(lines, COLOURS, strict=False):
        those = sorted((m for m in drawn if m.line == line), key=lambda m: m.at)
        for joined in dict.fromkeys(m.joined for m in those):
            stretch = [(m.at.timestamp(), m.value) for m in those if m.joined == joined]
            plot.line(stretch, colour=colour)
        for m in those:
            shape = "cross" if m.is_bad else "full"
            point = (m.at.timestamp(), m.value)
            mark = "warn" if m.is_bad else colour
            plot.dot(point, colour=mark, words=m.words, shape=shape)
        keys.append((colour, line))
    left_out = len({moment.line for moment in found}) - len(lines)
    return {"title": title, "plot": plot, "keys": keys, "left_out": left_out}


def _question(study: Study) -> str:
    return f"{study.devices:,} of {study.cluster}, mini-batch {study.mini_batch_size:,}"


def _planned(rows: Sequence[Entry]) -> list[Moment]:
    return [
        Moment(
            at=study.created_at,
            value=study.answer["throughput_samples_per_s"],
            line=row.cells["question"],
            words=f"{study.created_at:%Y-%m-%d %H:%M}, {study.name or 'a study'}: {row.cells['answer']}",
            is_bad=row.is_worse,
            joined=row.cells["key"],
        )
        for row in rows
        if (study := row.cells["study"]).answer
    ]


def _answer(answer: dict[str, Any]) -> str:
    return (
        f"{digits(answer['throughput_samples_per_s'])} samples/s with {schedule(answer['schedule'])}, "
        f"W={answer['width']} × D={answer['depth']}, B={answer['micro_batch_size']}"
    )


def _studies(studies: Sequence[Study]) -> list[Entry]:
    """A row for each, with its change from the last one of the same request."""
    rows, before = [], dict[str, float]()
    for study in reversed(studies):
        row = Entry({"id": study.id, "study": study, "question": _question(study)})
        if study.answer:
            value = study.answer["throughput_samples_per_s"]
            key = canonical_json(study.request)
            row.change = value / before[key] - 1 if key in before else None
            row.cells |= {"answer": _answer(study.answer), "key": key}
            before[key] = value
        rows.append(row)
    return rows[::-1]


def _tried(history: History) -> list[Moment]:
    found = []
    for trial in history.trials:
        row = as_row(trial)
        if row.measured_s is not None and trial.ended_at is not None:
            ran = trial.configuration
            line = f"{schedule(ran['schedule'])}, W={ran['width']} × D={ran['depth']}"
            words = (
                f"{trial.ended_at:%Y-%m-%d %H:%M}, {line}, B={ran['micro_batch_size']}: "
                f"measured {seconds(row.measured_s)}, predicted {seconds(row.predicted_s)}"
            )
            found.append(Moment(trial.ended_at, row.measured_s, line, words))
    return found


def _machine(profile: Profile) -> str:
    timings = profile.timings
    return f"{timings.accelerator}, {timings.precision}, {timings.sequence_length:,} tokens"


def _comparable(profiles: Sequence[Kept], totals: Sequence[dict[int, float]]) -> dict[str, int]:
    """For each kind of machine the largest micro-batch that all of its profiles have."""
    common: dict[str, set[int]] = {}
    for kept, total in zip(profiles, totals, strict=True):
        sizes, key = set(total), _machine(kept.document)
        common[key] = common[key] & sizes if key in common else sizes
    return {key: max(sizes) for key, sizes in common.items() if sizes}


def _timed(rows: Sequence[Entry]) -> list[Moment]:
    return [
        Moment(
            at=row.cells["at"],
            value=row.cells["whole_s"],
            line=f"{row.cells['machine']}, B={row.cells['size']}",
            words=f"{row.cells['at']:%Y-%m-%d %H:%M}: {seconds(row.cells['whole_s'])}"
            + (f", {percent(-row.change)} slower than before" if row.is_worse and row.change else ""),
            is_bad=row.is_worse,
        )
        for row in rows
        if row.cells["whole_s"] is not None
    ]


def _profiles(profiles: Sequence[Kept]) -> list[Entry]:
    """A row for each, with its change from the last one of the same machine and question."""
    totals = [whole_model_s(kept.document) for kept in profiles]
    sizes = _comparable(profiles, totals)
    rows, before = [], dict[str, float]()
    for kept, total in zip(reversed(profiles), reversed(totals), strict=True):
        key = _machine(kept.document)
        size = sizes.get(key)
        whole_s = None if size is None else total.get(size)
        row = Entry(
            {"id": kept.row.id, "at": kept.row.created_at, "machine": key, "size": size, "whole_s": whole_s}
            | {"profile": kept.document}
        )
        if whole_s is not None:
            row.change = before[key] / whole_s - 1 if key in before else None
            before[key] = whole_s
        rows.append(row)
    return rows[::-1]


def _checked(checks: Sequence[Kept]) -> list[Moment]:
    found = []
    for kept in checks:
        check = kept.document
        throughput = check.answer.throughput_samples_per_s
        if throughput is not None:
            where = f"{check.project}{f', {check.branch}' if check.branch else ''}"
            at = f"{check.checked_at:%Y-%m-%d %H:%M}"
            told = f"{check.answer.status}, {digits(throughput)} samples/s"
            words = f"{at}, {check.revision or 'no revision'}: {told}"
            bad = check.answer.status == "regressed"
            found.append(Moment(check.checked_at, throughput, where, words, is_bad=bad))
    return found


def _time(value: float) -> str:
    return si(value, "s") if value else f"0{NO_BREAK}s"
