"""Which untried configurations does Optuna's sampler lead to?"""

from collections.abc import Sequence

import numpy as np

from tuner.optuna_study import Belief, Space, draw, make_study
from tuner.schedules.scheme import Floats, Integers
from tuner.trials import Option, Trial

_DRAWN = 3
"""Points of the sampler for one proposal."""
_BELIEFS = 48
"""Untried configurations that the sampler is told of, best first, while there are fewer trials."""


def drawn(
    rows: Sequence[Trial],
    options: Sequence[Option],
    left: Integers,
    *,
    expected_s: Floats,
    over: Floats,
    seed: int,
) -> list[int]:
    """Places among the options, of those `left`, nearest to the points that are drawn.

    left: places that can be proposed, the fastest expected first; over: what each option needs over what
    there is, minus 1 [option].
    """
    space = Space([*(option.configuration for option in options), *(row.configuration for row in rows)])
    beliefs = [
        Belief(options[place].configuration, float(expected_s[place]))
        for place in left[: max(0, _BELIEFS - len(rows))]
    ]
    excess = {option.configuration: float(over[place]) for place, option in enumerate(options)}
    study = make_study(rows, space, seed=seed, beliefs=beliefs, over=excess)
    wanted = [options[place].configuration for place in left]
    return [int(left[np.argmin(space.distances(point, wanted))]) for point in draw(study, space, _DRAWN)]
