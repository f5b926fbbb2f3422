"""How well do the best coefficients describe some measurements, and how sure are they?"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from profiles.calibration import CalibrationSet, Coefficient
from tuner.coefficients import NAMES, array_of
from tuner.errors import CalibrationError
from tuner.identification import PRIORITY, WITHOUT_FLUSH, Identified, identify
from tuner.robust_fit import Lines, RobustFit, slopes_at, soft_weights
from tuner.schedules.scheme import Floats, Integers

_LAUNCH, _COMPUTE = NAMES.index("launch_floor_s"), NAMES.index("compute_factor")
_TRAFFIC = NAMES.index("traffic_factor")
_LAUNCH_START = 1.1
"""Where the fit of the launch time starts, in times of the shortest backward of a block: below all backwards
it would have no slope. From starts up to 1.6 the fits of the shipped measurements end at the same place."""
_LEAST_REACH = 1.0
_UNKNOWN_SCATTER = 0.1
"""Scatter where no more measurements differ than coefficients were fitted, so that it cannot be seen. Each
further one counts against it."""
_ROUNDS = 3
_SAME = 1e-3
"""Relative difference of two factors that are one."""


@dataclass(frozen=True)
class Fitted:
    """Coefficients fitted to rows, with what the error bars are made of."""

    rows: tuple[Lines, ...]
    values: Floats
    identified: Identified
    free: tuple[int, ...]
    """Fitted coefficients above 0."""
    covariance: Floats
    """Of the free coefficients."""
    scatter: float
    reach: float
    left_out: Floats
    """log(predicted / measured) of each row, had it been left out (to first order) [row]."""

    @property
    def mean_error(self) -> float:
        """Mean relative error of the throughput of rows left out."""
        return float(np.abs(np.exp(-self.left_out) - 1).mean())


def fit(rows: Sequence[Lines], level: float) -> Fitted:
    """The coefficients of least soft L1 loss; those that the rows do not tell stay the cluster's."""
    first = rows[0].observation.predictor
    start = first.values.copy()
    if first.synchronous:
        shortest_s = min(row.observation.predictor.block_backward_s for row in rows)
        start[_LAUNCH] = _LAUNCH_START * first.values[_COMPUTE] * shortest_s
    values, identified = _fit_from(rows, start, plain=first.values)
    if first.traffic_follows:
        values, identified = _following(rows, values, identified, plain=first.values)
    return _judged(tuple(rows), values, identified, level=level)


def _following(
    rows: Sequence[Lines], values: Floats, identified: Identified, *, plain: Floats
) -> tuple[Floats, Identified]:
    """Fitted again with the compute factor as that of traffic, which is what a cluster without one has."""
    for _ in range(_ROUNDS):
        if _TRAFFIC in identified.told or abs(values[_TRAFFIC] / values[_COMPUTE] - 1) < _SAME:
            break
        if not slopes_at(rows, values)[1][:, _TRAFFIC].any():
            break
        plain, start = plain.copy(), values.copy()
        plain[_TRAFFIC] = start[_TRAFFIC] = values[_COMPUTE]
        values, identified = _fit_from(rows, start, plain=plain)
    return values, identified


def _fit_from(rows: Sequence[Lines], start: Floats, *, plain: Floats) -> tuple[Floats, Identified]:
    """From one start; what the measurements turn out not to tell is given up and the rest fitted again."""
    among = PRIORITY if rows[0].observation.predictor.synchronous else WITHOUT_FLUSH
    differing = int(_configurations(rows).max()) + 1
    identified = identify(slopes_at(rows, start)[1], among, differing=differing)
    values = start
    for _ in range(_ROUNDS):
        start = np.where(np.isin(np.arange(len(start)), identified.told), start, plain)
        values = RobustFit(rows, identified.told).from_start(start)
        values, identified = _without_idle(rows, values, identified, plain=plain)
        again = identify(slopes_at(rows, values)[1], among, differing=differing)
        lost = tuple(at for at in identified.told if at in again.reasons)
        if not lost:
            break
        told = tuple(at for at in identified.told if at not in lost)
        identified = Identified(told, identified.reasons | {at: again.reasons[at] for at in lost})
        start = values
    return values, identified


def _without_idle(
    rows: Sequence[Lines], values: Floats, identified: Identified, *, plain: Floats
) -> tuple[Floats, Identified]:
    """Coefficients that ended where no measurement depends on them are the cluster's again."""
    slopes = slopes_at(rows, values)[1]
    idle = [at for at in identified.told if not np.abs(slopes[:, at]).max()]
    if not idle:
        return values, identified
    values = values.copy()
    values[idle] = plain[idle]
    told = tuple(at for at in identified.told if at not in idle)
    reasons = identified.reasons | dict.fromkeys(idle, "the best fit is where no measurement depends on it")
    return values, Identified(told, reasons)


def _judged(rows: tuple[Lines, ...], values: Floats, identified: Identified, *, level: float) -> Fitted:
    errors, slopes = slopes_at(rows, values)
    weights = soft_weights(errors) ** 2
    scales = np.abs(slopes).max(axis=0)
    free = tuple(at for at in identified.told if values[at] > 0 and scales[at] > 0)
    own = slopes[:, free]
    units = np.linalg.norm(own, axis=0)
    scaled = own / units
    inverse = np.linalg.pinv(scaled.T @ (scaled * weights[:, None]), hermitian=True)
    leverage = np.clip(weights * np.einsum("ij,jk,ik->i", scaled, inverse, scaled), 0.0, 0.95)
    freedom = max(1, len(rows) - len(free))
    small = float(np.sqrt(len(rows) / freedom))
    alike = _configurations(rows)
    differing = int(alike.max()) + 1
    unseen = _UNKNOWN_SCATTER / (1 + max(0, differing - len(free)))
    scatter = max(unseen, float(np.sqrt((weights * errors**2).sum() / freedom)))
    spread = scatter * np.sqrt(1 + np.einsum("ij,jk,ik->i", scaled, inverse, scaled))
    left_out = errors / (1 - leverage)
    return Fitted(
        rows=rows,
        values=values,
        identified=identified,
        free=free,
        covariance=scatter**2 * inverse / np.outer(units, units),
        scatter=scatter,
        reach=small * _reach(_largest(np.abs(left_out) / spread, alike), level),
        left_out=left_out,
    )


def _configurations(rows: Sequence[Lines]) -> Integers:
    """Of each row the number of what it measured, by which those that measured the same are told [row]."""
    results = {
        "status",
        "iteration_s",
        "throughput_samples_per_s",
        "peak_memory_gb",
        "peak_memory_bytes",
        "where",
    }
    measured = [row.observation.measurement.model_dump_json(exclude=results) for row in rows]
    return np.unique(measured, return_inverse=True)[1].ravel()


def _largest(deviations: Floats, alike: Integers) -> Floats:
    """The largest deviation of each configuration: measuring one again says nothing of others."""
    found = np.zeros(int(alike.max()) + 1)
    np.maximum.at(found, alike, deviations)
    return found


def _reach(deviations: Floats, level: float) -> float:
    """The deviation in which `level` of further rows lie: an order statistic, as in conformal prediction."""
    rank = ceil((len(deviations) + 1) * level)
    found = np.sort(deviations)[min(rank, len(deviations)) - 1]
    # With too few rows for the level even the largest deviation is not large enough.
    widened = rank / min(rank, len(deviations))
    return max(_LEAST_REACH, float(found)) * widened


def document_of(
    fitted: Fitted, *, cluster: str, model: str | None, synchronous: bool, helped_by: dict[int, str]
) -> CalibrationSet:
    """The set as part of a calibration."""
    errors = np.sqrt(np.maximum(0.0, np.diag(fitted.covariance)))
    known = dict(zip(fitted.free, errors.tolist(), strict=True))
    return CalibrationSet(
        cluster=cluster,
        model=model,
        synchronous=synchronous,
        measurements=len(fitted.rows),
        coefficients=tuple(
            Coefficient(
                name=name,
                value=float(fitted.values[position]),
                standard_error=known.get(position),
                fitted=position in fitted.identified.told,
                reason=fitted.identified.reasons.get(position),
                helped_by=helped_by.get(position),
            )
            for position, name in enumerate(NAMES)
        ),
        covariance=tuple(tuple(row) for row in fitted.covariance.tolist()),
        scatter=fitted.scatter,
        reach=fitted.reach,
        mean_error=fitted.mean_error,
    )


def coefficients_of(chosen: CalibrationSet) -> Floats:
    """The coefficients of a set, in the order of NAMES; raises CalibrationError where they are others."""
    values: dict[str, float] = {each.name: each.value for each in chosen.coefficients}
    missing, unknown = set(NAMES) - values.keys(), values.keys() - set(NAMES)
    if missing or unknown or len(values) < len(chosen.coefficients):
        told = [f"lacks {', '.join(sorted(missing))}"] if missing else []
        told += [f"has {', '.join(sorted(unknown))}, which is not fitted any more"] if unknown else []
        raise CalibrationError(
            f"the calibration of {chosen.cluster} {' and '.join(told) or 'has a coefficient twice'}: fit it "
            "again with `chimera score FILE --calibrate-on FILE --save-calibration calibration.json`"
        )
    return array_of(values)


def deviation(chosen: CalibrationSet, slopes: Floats) -> float:
    """Standard deviation of log(measured / predicted) of a prediction with these derivatives [NAMES]."""
    free = [NAMES.index(each.name) for each in chosen.coefficients if each.standard_error is not None]
    own = slopes[free]
    covariance = np.array(chosen.covariance).reshape(len(free), len(free))
    return float(np.sqrt(chosen.scatter**2 + max(0.0, float(own @ covariance @ own))))
