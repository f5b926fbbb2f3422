"""Which coefficients can some measurements tell, and which measurement would tell another one?

A coefficient is told if the measurements depend on it in a way that no mixture of those told before can
imitate: the part of its derivatives that is orthogonal to theirs must be more than a small share of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from profiles.calibration import CoefficientName
from tuner.coefficients import NAMES
from tuner.schedules.scheme import Floats

PRIORITY: tuple[CoefficientName, ...] = (
    "compute_factor",
    "launch_floor_s",
    "collective_factor",
    "message_latency_s",
    "message_factor",
    "iteration_overhead_s",
    "stopped_collective_factor",
    "traffic_factor",
)
"""Of coefficients that cannot be told apart, the first is fitted."""

LEAST_OWN_SHARE = 0.05
"""Of a coefficient's derivatives, what must be its own for it to be told."""

ROWS_FOR_EACH = 3
"""Measurements that are wanted for each coefficient."""

_NOTHING = 1e-12


@dataclass(frozen=True)
class Identified:
    """What can be fitted, in the order of NAMES, and why the rest cannot."""

    told: tuple[int, ...]
    reasons: dict[int, str]


WITHOUT_FLUSH: tuple[CoefficientName, ...] = (
    "compute_factor",
    "collective_factor",
    "message_latency_s",
    "iteration_overhead_s",
)
"""What is fitted for schedules without a flush, whose steps hide most of the rest."""


def identify(
    slopes: Floats, among: Sequence[CoefficientName] = PRIORITY, *, differing: int | None = None
) -> Identified:
    """From the derivatives of the logarithm of every prediction by every coefficient [row, NAMES].

    `differing` configurations were measured, some of them more than once: that tells no further coefficient.
    """
    rows = len(slopes)
    configurations = rows if differing is None else differing
    most = max(1, configurations // ROWS_FOR_EACH)
    told: list[int] = []
    reasons: dict[int, str] = {}
    for name in PRIORITY:
        position = NAMES.index(name)
        if name not in among:
            reasons[position] = "it is not fitted on schedules without a flush"
            continue
        column = slopes[:, position]
        if float(np.abs(column).max(initial=0.0)) <= _NOTHING:
            reasons[position] = "none of the measurements depends on it"
        elif len(told) >= most:
            reasons[position] = _too_few(rows, configurations, most)
        elif own_share(column, slopes[:, told]) < LEAST_OWN_SHARE:
            alike = NAMES[told[_most_alike(column, slopes[:, told])]]
            reasons[position] = f"it cannot be told from {alike}: over these measurements both act alike"
        else:
            told.append(position)
    return Identified(tuple(sorted(told)), reasons)


def _too_few(rows: int, configurations: int, most: int) -> str:
    measured = "1 measurement is" if rows == 1 else f"{rows} measurements are"
    if configurations < rows:
        measured = f"{rows} measurements of {configurations} that differ are"
    return f"{measured} enough for {most} coefficient{'s' if most > 1 else ''}, not for more"


def own_share(column: Floats, others: Floats) -> float:
    """The part of a column that no mixture of the others gives, as a share of its length."""
    length = float(np.linalg.norm(column))
    if not length:
        return 0.0
    if not others.shape[1]:
        return 1.0
    mixture = np.linalg.lstsq(_unit(others), column, rcond=None)[0]
    return float(np.linalg.norm(column - _unit(others) @ mixture)) / length


def most_helpful(slopes: Floats, candidates: Floats, *, told: Sequence[int], position: int) -> int | None:
    """Which of `candidates` [row, NAMES] makes most of a coefficient its own; None where none helps."""
    gains = []
    for candidate in candidates:
        more = np.vstack([slopes, candidate])
        gains.append(own_share(more[:, position], more[:, list(told)]))
    best = int(np.argmax(gains)) if gains else None
    if best is None or gains[best] < max(
        LEAST_OWN_SHARE, 1.1 * own_share(slopes[:, position], slopes[:, told])
    ):
        return None
    return best


def _most_alike(column: Floats, others: Floats) -> int:
    return int(np.abs(_unit(others).T @ column).argmax())


def _unit(columns: Floats) -> Floats:
    lengths = np.linalg.norm(columns, axis=0)
    return np.asarray(columns / np.where(lengths > 0, lengths, 1.0))
