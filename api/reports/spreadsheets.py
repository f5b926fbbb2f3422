"""How does a spreadsheet read an answer? As CSV of candidates, rejected and trials, a unit in each name.

Text that a spreadsheet would take for a formula gets an apostrophe in front, which it shows as text.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

from tuner.plan import Breakdown, Candidate, ConfigurationDocument, Plan
from tuner.tuning import Tuning

Table = Literal["candidates", "rejected", "trials"]

_CONFIGURATION = tuple(ConfigurationDocument.model_fields)
_PARTS = tuple(Breakdown.model_fields)
_PREDICTED = ("iteration_s", "throughput_samples_per_s", "tokens_per_s", "mfu", "bubble_ratio", "simulated")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def candidates_csv(plan: Plan) -> str:
    """The ranked candidates that the plan lists, the fastest first."""
    columns = ("place", *_CONFIGURATION, "compression", *_PREDICTED, *_PARTS, "low_s", "high_s")
    return _table(
        (*columns, "peak_memory_bytes", "stage_layers"), map(_candidate, *_counted(plan.candidates))
    )


def rejected_csv(plan: Plan) -> str:
    """Every configuration that was not taken, and why; what was not decided yet is empty."""
    return _table(
        (*_CONFIGURATION, "kind", "reason"),
        ([*_configuration(entry.configuration), entry.kind, entry.reason] for entry in plan.rejected),
    )


def trials_csv(plan: Plan) -> str:
    """What was tried, in that order: predicted and measured seconds of an iteration."""
    trials = plan.trials if isinstance(plan, Tuning) else ()
    return _table(
        ("number", *_CONFIGURATION, "predicted_s", "measured_s", "status", "message"),
        (
            [
                number,
                *_configuration(trial.configuration),
                trial.predicted,
                trial.measured,
                trial.status,
                trial.message,
            ]
            for number, trial in enumerate(trials, start=1)
        ),
    )


TABLES: dict[Table, Callable[[Plan], str]] = {
    "candidates": candidates_csv,
    "rejected": rejected_csv,
    "trials": trials_csv,
}


def _counted(candidates: Sequence[Candidate]) -> tuple[Iterable[int], Sequence[Candidate]]:
    return range(1, len(candidates) + 1), candidates


def _candidate(place: int, candidate: Candidate) -> list[Any]:
    made, bar = candidate.predicted, candidate.predicted.error_bar
    return [
        place,
        *(getattr(candidate, name) for name in (*_CONFIGURATION, "compression")),
        *(getattr(made, name) for name in _PREDICTED),
        *(getattr(made.breakdown, name) for name in _PARTS),
        bar.low_s if bar else None,
        bar.high_s if bar else None,
        candidate.peak_memory_bytes,
        " ".join(map(str, candidate.stage_layers)),
    ]


def _configuration(configuration: ConfigurationDocument) -> Iterator[Any]:
    return (getattr(configuration, name) for name in _CONFIGURATION)


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """A value that no spreadsheet takes for a formula; numbers stay numbers, none is empty."""
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
