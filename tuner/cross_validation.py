"""How near do calibrated predictions come to measurements that the calibration has not seen?"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from statistics import fmean

from tuner.calibration import LEVEL, Corrected, correct
from tuner.fitted_set import document_of, fit
from tuner.observation import Observation
from tuner.regret import choices, mean_regret
from tuner.robust_fit import Lines


@dataclass(frozen=True)
class HeldOut:
    """A measurement beside what the others say of it."""

    observation: Observation
    corrected: Corrected

    @property
    def error(self) -> float:
        """Predicted over measured throughput, minus 1."""
        return self.observation.measured_s / self.corrected.iteration_s - 1

    @property
    def inside(self) -> bool:
        """Whether the measurement lies in its error bar."""
        return self.corrected.low_s <= self.observation.measured_s <= self.corrected.high_s


def cross_validate(
    rows: Sequence[Lines], fold_of: Callable[[int, Observation], object], *, level: float = LEVEL
) -> list[HeldOut]:
    """Every row predicted by the fit over the other folds; all rows are of one cluster and one kind."""
    folds: dict[object, list[int]] = {}
    for number, row in enumerate(rows):
        folds.setdefault(fold_of(number, row.observation), []).append(number)
    found: dict[int, HeldOut] = {}
    for numbers in folds.values():
        seen = [row for number, row in enumerate(rows) if number not in numbers]
        predicted = predict_others(seen, [rows[number] for number in numbers], level=level)
        found |= dict(zip(numbers, predicted, strict=True))
    return [found[number] for number in sorted(found)]


def predict_others(seen: Sequence[Lines], others: Sequence[Lines], *, level: float = LEVEL) -> list[HeldOut]:
    """`others` as the fit over `seen` predicts them."""
    fitted = fit(seen, level)
    first = seen[0].observation
    learnt = document_of(
        fitted, cluster=first.cluster, model=None, synchronous=first.predictor.synchronous, helped_by={}
    )
    return [HeldOut(row.observation, correct(row.simulate(fitted.values), learnt)) for row in others]


def predict_rest(rows: Sequence[Lines], drawn: Collection[int], *, level: float = LEVEL) -> list[HeldOut]:
    """The rows that are not `drawn` as the fit over the drawn ones predicts them."""
    seen = [row for number, row in enumerate(rows) if number in drawn]
    others = [row for number, row in enumerate(rows) if number not in drawn]
    return predict_others(seen, others, level=level)


def without_schedule(rows: Sequence[Lines]) -> dict[str, float]:
    """Mean error of every schedule, predicted by the fit over the others."""
    held_out = cross_validate(rows, lambda _, each: each.measurement.configuration.schedule)
    found: dict[str, list[HeldOut]] = {}
    for each in held_out:
        found.setdefault(each.observation.measurement.configuration.schedule, []).append(each)
    return {schedule: mean_error(each) for schedule, each in found.items()}


def mean_error(held_out: Sequence[HeldOut]) -> float:
    """Mean absolute relative error of the throughput."""
    return fmean(abs(each.error) for each in held_out)


def coverage(held_out: Sequence[HeldOut]) -> float:
    """Share inside the error bars."""
    return fmean(each.inside for each in held_out)


def regret_of(held_out: Sequence[HeldOut]) -> float:
    """Mean regret of picking by the predictions; 0 where there is nothing to pick from."""
    rows = [
        (each.observation.measurement, each.observation.measured_s, each.corrected.iteration_s)
        for each in held_out
    ]
    return mean_regret(choices(rows)) or 0.0
