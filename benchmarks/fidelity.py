"""How near do predictions come to the measurements that ship with the package, plain and calibrated?

    .venv/bin/python -P benchmarks/fidelity.py           tables: plain, calibrated, held out (some minutes)
    .venv/bin/python -P benchmarks/fidelity.py --quick   without the rows held out

Held out are: every schedule in turn, five folds of the rows, and of the A100 rows all but 32 drawn with the
seeds 0 to 19.
"""

import random
import statistics
import sys

from profiles import library
from profiles.measurement import Measurements
from tuner.calibration import calibrate
from tuner.cross_validation import (
    coverage,
    cross_validate,
    mean_error,
    predict_rest,
    regret_of,
    without_schedule,
)
from tuner.observation import observe
from tuner.robust_fit import Lines
from tuner.schedules import SYNCHRONOUS
from tuner.score import score

PAPER, A100 = "chimera-sc21", "vtrain-a100"
DRAWN, SEEDS = 32, 20


def rows_of(name: str, model: str | None = None) -> list[Lines]:
    """The rows of a shipped document with a time, of schedules with a flush."""
    found, _ = observe(library.load_measurements(name).measurements, library)
    return [Lines(each) for each in found if each.predictor.synchronous and model in {None, each.model}]


def of_model(name: str, model: str) -> Measurements:
    """A shipped document with the rows of one model."""
    document = library.load_measurements(name)
    kept = tuple(row for row in document.measurements if row.model == model)
    return document.model_copy(update={"measurements": kept})


def show_calibrated(title: str, document: Measurements) -> None:
    """Plain and calibrated on itself."""
    result = score(document, library, calibration=calibrate([document], library), schedules=SYNCHRONOUS)
    print(
        f"{title}: {result.count} rows, plain {result.uncalibrated.mape:.1%}; calibrated on themselves mean "
        f"{result.mape:.1%}, largest {result.max:.1%}, bias {result.bias:+.1%}"
    )
    for group in result.groups:
        print(
            f"  {group.model:24.24} {group.schedule:8} {group.count:3} rows: mean {group.mape:.1%}, largest "
            f"{group.max:.1%}, bias {group.bias:+.1%}"
        )


def show_held_out() -> None:
    """Errors and coverage of rows that a fit has not seen."""
    for model in ("bert-48", "gpt2-64"):
        rows = rows_of(PAPER, model)
        schedules = without_schedule(rows)
        told = ", ".join(f"{name} {error:.1%}" for name, error in schedules.items())
        print(f"{model}, a schedule left out: {told}; mean {statistics.mean(schedules.values()):.1%}")
        folds = cross_validate(rows, lambda number, _: number % 5)
        print(f"{model}, five folds: mean {mean_error(folds):.1%}, {coverage(folds):.0%} in their error bars")
    rows = rows_of(A100)
    drawn = [random.Random(seed).sample(range(len(rows)), DRAWN) for seed in range(SEEDS)]
    found = [predict_rest(rows, numbers) for numbers in drawn]
    error = statistics.mean(map(mean_error, found))
    inside = statistics.mean(map(coverage, found))
    regret = statistics.mean(map(regret_of, found))
    print(
        f"A100, {DRAWN} rows drawn, seeds 0 to {SEEDS - 1}: mean error of the rest {error:.1%}, {inside:.0%} "
        f"in their error bars, regret {regret:.2%}"
    )


def main() -> None:
    """Print the tables."""
    for model in ("bert-48", "gpt2-64"):
        show_calibrated(model, of_model(PAPER, model))
    show_calibrated("both models together", library.load_measurements(PAPER))
    show_calibrated("A100", library.load_measurements(A100))
    if "--quick" not in sys.argv[1:]:
        show_held_out()


if __name__ == "__main__":
    main()
