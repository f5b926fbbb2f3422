"""Which configuration, if it were measured, would tell a coefficient that the measurements do not tell?"""

from collections.abc import Iterator, Sequence

import numpy as np

from profiles.measurement import Measurement
from profiles.timings import Profile
from tuner.coefficients import NAMES
from tuner.errors import TunerError
from tuner.fitted_set import Fitted
from tuner.identification import most_helpful
from tuner.inputs import Library
from tuner.observation import Predictor
from tuner.replay import model_name, replay
from tuner.robust_fit import slopes_at
from tuner.schedules import find_scheme
from tuner.schedules.scheme import Floats

_MOST_TRIED = 24
_MOST_VARIED = 4
_MOST_OPERATIONS = 20_000
"""Forwards and backwards of a configuration that is suggested."""


def suggest(fitted: Fitted, library: Library, *, profiles: Sequence[Profile] = ()) -> dict[int, str]:
    """For each coefficient that is not told, the neighbour of what was measured that tells it best."""
    missing = sorted(fitted.identified.reasons)
    if not missing:
        return {}
    measured = [row.observation.measurement for row in fitted.rows]
    slopes = slopes_at(fitted.rows, fitted.values)[1]
    tried = list(_slopes_of_neighbours(measured, fitted.values, library, profiles=profiles))
    candidates = np.array([slope for _, slope in tried]).reshape(len(tried), len(NAMES))
    found = {}
    for position in missing:
        best = most_helpful(slopes, candidates, told=fitted.identified.told, position=position)
        if best is not None:
            found[position] = _described(tried[best][0])
    return found


def _slopes_of_neighbours(
    measured: Sequence[Measurement], values: Floats, library: Library, *, profiles: Sequence[Profile]
) -> Iterator[tuple[Measurement, Floats]]:
    """Configurations near the measured ones that are legal, with the derivatives of their logarithms."""
    count = 0
    for neighbour in _neighbours(measured):
        if count == _MOST_TRIED:
            return
        try:
            replayed = replay(neighbour, library, profiles=profiles)
            line = Predictor(replayed.evaluator, replayed.evaluated).line(values)
        except TunerError:
            continue  # not a legal configuration
        count += 1
        yield neighbour, line.gradient / line.value_s


def _neighbours(measured: Sequence[Measurement]) -> Iterator[Measurement]:
    """The measured ones spread over the list, with one thing changed; nothing that was measured."""
    known = {_key(each) for each in measured}
    step = max(1, len(measured) // _MOST_VARIED)
    for base in measured[::step][:_MOST_VARIED]:
        ran = base.configuration
        share = ran.mini_batch_size // ran.width
        changes: list[dict[str, int | str]] = [
            {"micro_batch_size": 1},
            {"micro_batch_size": min(share, 4 * ran.micro_batch_size)},
            {"depth": 2 * ran.depth},
            {"depth": max(1, ran.depth // 2)},
            {"width": 2 * ran.width, "mini_batch_size": 2 * ran.mini_batch_size},
            {"mini_batch_size": 2 * ran.mini_batch_size},
        ]
        if find_scheme(ran.schedule).synchronous:
            changes.append({"schedule": "gpipe" if ran.schedule != "gpipe" else "dapple"})
        for change in changes:
            varied = ran.model_copy(update=change)
            devices = base.devices * varied.width * varied.depth // (ran.width * ran.depth)
            operations = 2 * varied.depth * varied.mini_batch_size // (varied.width * varied.micro_batch_size)
            neighbour = base.model_copy(update={"configuration": varied, "devices": max(1, devices)})
            if _key(neighbour) not in known and operations <= _MOST_OPERATIONS:
                known.add(_key(neighbour))
                yield neighbour


def _key(measurement: Measurement) -> str:
    return f"{model_name(measurement)} {measurement.devices} {measurement.configuration.model_dump_json()}"


def _described(measurement: Measurement) -> str:
    ran = measurement.configuration
    return (
        f"{model_name(measurement)} on {measurement.devices} devices: {ran.schedule} W={ran.width} "
        f"D={ran.depth} B={ran.micro_batch_size}, mini-batch {ran.mini_batch_size}, recompute {ran.recompute}"
    )
