"""Which measurements do the tests of calibration use? Rows as the model itself would measure them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from profiles import library
from profiles.measurement import Measurement, Measurements
from tuner.coefficients import NAMES, with_values
from tuner.observation import observe
from tuner.replay import replay
from tuner.robust_fit import Lines
from tuner.schedules.scheme import Floats

TRUTH: dict[str, float] = {
    "compute_factor": 1.2,
    "traffic_factor": 1.5,
    "launch_floor_s": 0.0035,
    "iteration_overhead_s": 0.3,
    "message_latency_s": 0.004,
    "message_factor": 2.5,
    "collective_factor": 1.8,
    "stopped_collective_factor": 0.3,
}
"""Coefficients that made-up measurements have."""


def truth(**changes: float) -> Floats:
    """TRUTH as an array, with changes."""
    known = TRUTH | changes
    return np.array([known[name] for name in NAMES])


def make_measurement(**changes: Any) -> Measurement:
    """bert-48 on Piz Daint, with another configuration."""
    ran: dict[str, Any] = {
        "schedule": "dapple",
        "width": 4,
        "depth": 8,
        "micro_batch_size": 4,
        "mini_batch_size": 512,
    } | changes
    return Measurement.model_validate(
        {
            "model": "bert-48",
            "cluster": "piz-daint",
            "devices": ran["width"] * ran["depth"],
            "sequence_length": 128,
            "precision": "float32",
            "configuration": ran,
            "status": "ok",
            "iteration_s": 1.0,
        }
    )


def measured_as(rows: Sequence[Measurement], coefficients: Floats) -> Measurements:
    """The rows with the iteration times that the model has at these coefficients."""
    cluster = with_values(library.load_cluster("piz-daint"), coefficients)
    times = [replay(row, library, cluster=cluster).simulated_s for row in rows]
    return Measurements(
        source="made up",
        measurements=tuple(
            row.model_copy(update={"iteration_s": time, "throughput_samples_per_s": None})
            for row, time in zip(rows, times, strict=True)
        ),
    )


def various() -> list[Measurement]:
    """Rows that tell all coefficients."""
    sizes = [("gpipe", 16, 2), ("dapple", 8, 4), ("gems", 4, 8), ("chimera", 4, 8), ("dapple", 2, 16)]
    return [
        make_measurement(schedule=schedule, width=width, depth=depth, micro_batch_size=size)
        for schedule, width, depth in sizes
        for size in (1, 2, 4, 8, 16)
    ]


def lines_of(document: Measurements) -> list[Lines]:
    """The rows as a fit takes them."""
    return [Lines(each) for each in observe(document.measurements, library)[0]]
