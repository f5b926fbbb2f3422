"""How do studies differ? What was asked and answered, and the figures on axes that all of them share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from api.reports.axes import linear, positions
from api.reports.memory import fullest, shown_parts
from api.reports.plots import BOTTOM, LEFT, RIGHT, TOP, Plot
from api.reports.quantities import gigabytes, percent, rate, recompute, runs, schedule, seconds
from api.reports.reasons import PART_NAMES, failure
from api.reports.requests import LABELS, asked
from api.reports.tried import is_chosen
from tuner.plan import Candidate, Chosen, Plan
from tuner.tuning import Tuning

LETTERS = "ABCD"
MOST = len(LETTERS)
"""Studies that stand side by side."""
_MANY_TIMES = 10
"""From here on percentages say little."""
_EQUAL = 5e-4
"""Relative differences below it are shown as none."""
_MANY_RANKS = 24


@dataclass(frozen=True)
class Side:
    """One study of a comparison."""

    letter: str
    study: dict[str, Any]
    """As in lists, with its request."""
    plan: Plan | None
    measured_s: float | None
    """Of the choice, where it was run."""

    @property
    def chosen(self) -> Chosen | None:
        """What was answered; None where nothing fits or there is no answer yet."""
        return self.plan.chosen if self.plan else None

    @property
    def title(self) -> str:
        """What people call it."""
        return str(self.study["name"] or self.study["model"])

    @property
    def missing(self) -> str:
        """Why it has no answer, in a sentence."""
        plan = self.plan
        if plan is not None and plan.chosen is None:
            change = plan.smallest_change
            more = (
                f"The smallest change that helps: {change.change}." if change else "No single change helps."
            )
            return f"{failure(plan)}. {more}"
        match self.study["status"]:
            case "failed":
                return f"It failed: {self.study['error']}"
            case "cancelled":
                return "It was cancelled before it had an answer."
            case status:
                return f"It is {status} and has no answer yet: it waits for {self.study['waiting_for']}."


@dataclass(frozen=True)
class Row:
    """A line of a table with a cell for each study."""

    label: str
    cells: tuple[str, ...]
    differences: tuple[str, ...] = ()
    """Of each from the first; empty where there is nothing to subtract."""
    better: tuple[bool | None, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether the studies are not all alike."""
        return len(set(self.cells)) > 1


def side(letter: str, study: dict[str, Any], *, plan: Plan | None, tuning: Tuning | None) -> Side:
    """A study as it is compared."""
    measured = [
        trial.measured
        for trial in (tuning.trials if tuning else ())
        if trial.measured is not None and plan and plan.chosen and is_chosen(trial.configuration, plan.chosen)
    ]
    return Side(letter, study, plan, min(measured, default=None))


def comparison(sides: Sequence[Side]) -> dict[str, Any]:
    """What the page says of at least two studies."""
    answered = [each for each in sides if each.chosen is not None]
    questions = _questions(sides)
    return {
        "sides": sides,
        "answered": answered,
        "differing": [row for row in questions if row.differs],
        "equal": [row for row in questions if not row.differs],
        "answers": [_row(label, read, answered) for label, read in _ANSWERS],
        "figures": _figures(answered),
        "breakdown": _breakdown(answered),
        "memory": _memory(answered),
    }


def _questions(sides: Sequence[Side]) -> list[Row]:
    told = [asked(each.plan.request if each.plan else each.study["request"]) for each in sides]
    for words, each in zip(told, sides, strict=True):
        if each.plan is not None:
            words |= {"model": each.plan.model.name, "cluster": each.plan.cluster.name}
            words["accelerator"] = each.plan.cluster.accelerator
    keys = [key for key in LABELS if any(key in words for words in told)]
    return [Row(LABELS[key], tuple(words.get(key, "–") for words in told)) for key in keys]


_ANSWERS: tuple[tuple[str, Callable[[Chosen], str]], ...] = (
    ("Schedule", lambda chosen: schedule(chosen.schedule)),
    ("Width W, data-parallel", lambda chosen: f"{chosen.width:,}"),
    ("Depth D, pipeline", lambda chosen: f"{chosen.depth:,}"),
    ("Micro-batch B", lambda chosen: f"{chosen.micro_batch_size:,}"),
    ("Micro-batches N", lambda chosen: f"{chosen.micro_batches:,}"),
    ("Recomputation", lambda chosen: recompute(chosen.recompute)),
    ("Scaling", lambda chosen: chosen.scaling),
    ("Pairs of pipes", lambda chosen: f"{chosen.pipe_pairs}"),
    ("Blocks of each stage", lambda chosen: runs(chosen.stage_layers)),
    ("Compression", lambda chosen: chosen.compression),
)


def _row(label: str, read: Callable[[Chosen], str], sides: Sequence[Side]) -> Row:
    return Row(label, tuple(read(each.chosen) for each in sides if each.chosen))


def _figures(sides: Sequence[Side]) -> list[Row]:
    """Predicted figures, each with its difference from the first study's."""
    chosen = [each.chosen for each in sides if each.chosen]
    if not chosen:
        return []
    made = [each.predicted for each in chosen]
    iterations = [each.iteration_s for each in made]
    rows = [
        _figure("Iteration", iterations, seconds, less_is_better=True),
        Row("Error bar", tuple(_bar(each) for each in chosen)),
        Row("Iteration, measured", tuple(seconds(s.measured_s) if s.measured_s else "–" for s in sides)),
        _figure("Throughput", [each.throughput_samples_per_s for each in made], _samples),
        _figure("Tokens", [each.tokens_per_s for each in made], _tokens),
        _figure("MFU", [each.mfu for each in made], percent),
        _figure("Bubble", [each.bubble_ratio for each in made], percent, less_is_better=True),
        _figure("Peak memory", [float(e.peak_memory_bytes) for e in chosen], gigabytes, less_is_better=True),
        Row("Devices that stay idle", tuple(f"{each.plan.idle_devices:,}" for each in sides if each.plan)),
    ]
    return [row for row in rows if set(row.cells) - {"–", "0"}]


def _figure(
    label: str, values: Sequence[float], write: Callable[[float], str], *, less_is_better: bool = False
) -> Row:
    first = values[0]
    changes = [value / first - 1 if first else 0.0 for value in values]
    return Row(
        label,
        tuple(map(write, values)),
        ("", *map(_change, changes[1:])),
        (None, *(None if abs(c) < _EQUAL else (c < 0) == less_is_better for c in changes[1:])),
    )


def _change(change: float) -> str:
    if change >= _MANY_TIMES - 1:
        return f"{1 + change:,.0f} times"
    return f"{100 * change:+,.1f}\N{NO-BREAK SPACE}%"


def _bar(chosen: Candidate) -> str:
    bar = chosen.predicted.error_bar
    return f"{seconds(bar.low_s)} to {seconds(bar.high_s)}" if bar else "–"


def _samples(value: float) -> str:
    return rate(value, "samples/s")


def _tokens(value: float) -> str:
    return rate(value, "tokens/s")


def _breakdown(sides: Sequence[Side]) -> dict[str, Any]:
    """The iterations by what they are spent on, on an axis that starts at zero."""
    bars = [
        (each, [(key, getattr(each.chosen.predicted.breakdown, f"{key}_s")) for key in PART_NAMES])
        for each in sides
        if each.chosen
    ]
    return {
        "parts": PART_NAMES,
        "bars": [(each, parts, each.chosen.predicted.iteration_s) for each, parts in bars if each.chosen],
        "scale": max((sum(size for _, size in parts) for _, parts in bars), default=1.0),
    }


def _memory(sides: Sequence[Side]) -> dict[str, Any]:
    """The fullest rank of each as a bar, and all ranks of each as a picture, with equal axes."""
    plans = [(each, each.plan, each.chosen) for each in sides if each.plan and each.chosen]
    capacities = [plan.cluster.memory_bytes for _, plan, _ in plans]
    most = max([rank.total_bytes for _, _, chosen in plans for rank in chosen.memory] + capacities, default=1)
    parts = {
        key: label for _, _, chosen in plans for key, label, _ in shown_parts(chosen.memory)
    }  # in the order of the first that has it
    full = [(each, fullest(chosen.memory, plan.cluster.memory_bytes)) for each, plan, chosen in plans]
    return {
        "parts": parts,
        "scale": 1.04 * most,
        "bars": [(each, [(key, size) for key, _, size in it.parts], it) for each, it in full],
        "pictures": [_ranks(each, plan, chosen, most=most) for each, plan, chosen in plans],
    }


def _ranks(each: Side, plan: Plan, chosen: Chosen, *, most: float) -> Plot:
    count = len(chosen.memory)
    room = (RIGHT - LEFT) / count
    y = linear("GB", [most / 1e9], start=BOTTOM, end=TOP, write="{:g}".format)
    x = positions("rank of the pipeline", count, start=LEFT, end=RIGHT)
    capacity = plan.cluster.memory_bytes
    plot = Plot(f"Memory of each rank of {each.letter}, {each.title}, in GB", x, y)
    at = [0.0] * count
    for key, _, sizes in shown_parts(chosen.memory):
        columns = [
            (float(rank), low, low + size / 1e9)
            for rank, (low, size) in enumerate(zip(at, sizes, strict=True))
        ]
        plot.columns(columns, width=room * (0.86 if count > _MANY_RANKS else 0.68), colour=key)
        at = [high for _, _, high in columns]
    plot.limit(capacity / 1e9, text=f"capacity {gigabytes(capacity)}")
    return plot
