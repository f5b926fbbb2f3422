"""Which coefficients of a cluster's software can be fitted, and how are they put into it?"""

from collections.abc import Mapping
from typing import get_args

import numpy as np

from profiles.calibration import CoefficientName
from profiles.cluster import ClusterProfile, Software
from tuner.schedules.scheme import Floats

NAMES: tuple[CoefficientName, ...] = tuple(
    name for name in get_args(CoefficientName) if name != "ring_step_s"
)
"""What is fitted. Steps of a ring were, and are not any more: over few layouts they act like the factor of
ranks that stop, and over more replicas than were measured they grow far too fast."""

_NEUTRAL: dict[CoefficientName, float] = {"message_factor": 1.0, "collective_factor": 1.0}
_LEAST_COMPUTE_FACTOR = 0.001  # as the document bounds it


def values_of(software: Software) -> Floats:
    """The coefficients of a cluster, in the order of NAMES; what it does not say changes nothing."""
    neutral = _NEUTRAL | {"traffic_factor": software.compute_factor}
    found = [getattr(software, name) for name in NAMES]
    return np.array(
        [neutral.get(name, 0.0) if value is None else value for name, value in zip(NAMES, found, strict=True)]
    )


def with_values(cluster: ClusterProfile, values: Floats) -> ClusterProfile:
    """The cluster with these coefficients, in the order of NAMES."""
    update = dict(zip(NAMES, values.tolist(), strict=True))
    update["compute_factor"] = max(update["compute_factor"], _LEAST_COMPUTE_FACTOR)
    return cluster.model_copy(update={"software": cluster.software.model_copy(update=update)})


def array_of(coefficients: Mapping[str, float]) -> Floats:
    """Values by name as an array in the order of NAMES."""
    return np.array([coefficients[name] for name in NAMES])
