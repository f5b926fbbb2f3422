"""What did measurements teach about a cluster's software, and how sure is it?"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from profiles.document import FIRST_FAULT, Document, Fraction, Name, Part, PositiveCount

CoefficientName = Literal[
    "compute_factor",
    "traffic_factor",
    "launch_floor_s",
    "iteration_overhead_s",
    "message_latency_s",
    "message_factor",
    "collective_factor",
    "ring_step_s",
    "stopped_collective_factor",
]
"""Fields of a cluster's software."""

Sentence = Annotated[str, Field(max_length=1_000)]
NonNegative = Annotated[float, Field(ge=0)]


class Coefficient(Part):
    """One coefficient: fitted, or left as the cluster has it because the measurements do not tell it."""

    name: CoefficientName
    value: NonNegative
    standard_error: NonNegative | None = None
    """None where it was not fitted, or is 0 because a negative value would fit better."""
    fitted: bool
    reason: Sentence | None = None
    """Why it was not fitted."""
    helped_by: Sentence | None = None
    """Which further measurement would tell it best."""


class CalibrationSet(Part):
    """What holds for one cluster: for one of its models, or for all where `model` is None."""

    cluster: Name
    model: Name | None = None
    synchronous: bool
    """Schedules with a flush; those without are calibrated apart."""
    measurements: PositiveCount
    coefficients: Annotated[tuple[Coefficient, ...], Field(min_length=1, max_length=8)]
    covariance: Annotated[tuple[tuple[float, ...], ...], FIRST_FAULT]
    """Of the coefficients that have a standard error, in their order."""
    scatter: NonNegative
    """Robust standard deviation of the logarithm of measured over predicted iteration time."""
    reach: NonNegative
    """Half the error bar over its standard deviation: so many hold `level` of the measurements that a fit has
    not seen."""
    mean_error: NonNegative
    """Mean relative error of the throughput of measurements left out of the fit, one at a time."""

    @model_validator(mode="after")
    def _square(self) -> Self:
        free = sum(coefficient.standard_error is not None for coefficient in self.coefficients)
        if len(self.covariance) != free or any(len(row) != free for row in self.covariance):
            raise ValueError(f"covariance must be {free} x {free}, as many as there are standard errors")
        return self


class Calibration(Document):
    """Coefficients with their uncertainty, fitted on measurements."""

    kind_name = "calibration"

    fitted_on: Annotated[tuple[Name, ...], FIRST_FAULT, Field(min_length=1, max_length=1_000)]
    """SHA-256 of the measurement documents."""
    level: Fraction = 0.9
    """Share of measurements that error bars are to hold."""
    sets: Annotated[tuple[CalibrationSet, ...], FIRST_FAULT, Field(min_length=1, max_length=1_000)]
    skipped: Annotated[tuple[Sentence, ...], FIRST_FAULT, Field(max_length=100_000)] = ()
    """What could not be used, and why."""

    def find(self, cluster: str, model: str | None, *, synchronous: bool) -> CalibrationSet | None:
        """The set of this model on this cluster, else that of all its models; None where neither is there."""
        usable = [each for each in self.sets if each.cluster == cluster and each.synchronous == synchronous]
        own = [each for each in usable if each.model == model]
        return next(iter(own + [each for each in usable if each.model is None]), None)
