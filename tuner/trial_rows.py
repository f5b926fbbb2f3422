"""What does the result of a trial say of its configuration? It becomes a row that the next choice reads."""

from statistics import NormalDist

from tuner.assignments import TrialResult
from tuner.configuration import Configuration
from tuner.trials import Trial, TrialStatus

_DEVIATIONS = NormalDist().inv_cdf(0.9) - NormalDist().inv_cdf(0.1)
"""Standard deviations between the first and the last tenth of a normal distribution."""


def row_of(configuration: Configuration, predicted_s: float, result: TrialResult) -> Trial:
    """The row of a trial that ended; a time that others disturbed counts, but for less."""
    spread, status = result.measured_iteration_s, TrialStatus(result.status)
    if status is TrialStatus.OK and result.machine_quiet is False:
        status = TrialStatus.NOISY
    ran = spread if status in {TrialStatus.OK, TrialStatus.NOISY} else None
    return Trial(
        configuration,
        predicted_s,
        status,
        measured_s=ran.median if ran else None,
        spread_s=max(0.0, ran.p90 - ran.p10) / _DEVIATIONS if ran else 0.0,
        peak_bytes=max(result.peak_memory_bytes, default=None),
        device_seconds=(result.elapsed_s or 0.0) * configuration.width * configuration.depth,
        message=result.message,
    )
