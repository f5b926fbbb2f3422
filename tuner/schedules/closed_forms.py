"""How long does an iteration take, where a formula says so exactly? Equal stages and free communication."""

from collections.abc import Callable

import numpy as np

from tuner.configuration import Scaling
from tuner.schedules import SCHEMES, Case


def makespan(
    scheme: str,
    *,
    depth: int,
    micro_batches: int,
    forward: float,
    backward: float,
    scaling: Scaling = "direct",
    pipe_pairs: int = 1,
    chunks: int = 2,
    pending: int | None = None,
) -> float | None:
    """Makespan of a legal variant for the times of a rank (all its chunks), or None without a formula.

    Split schedules have one where F, I and W take equally long, which is `backward` = 2·`forward`; `pending`
    is D/2 unless given.
    """
    if scheme == "interleaved":
        return (micro_batches + (depth - 1) / chunks) * (forward + backward)
    if scheme in _BUBBLES:
        bubble = _BUBBLES[scheme](depth, micro_batches, depth // 2 if pending is None else pending)
        if bubble is None or backward != 2 * forward:
            return None
        return (3 * micro_batches + bubble) * forward
    case = Case(
        depth=depth,
        micro_batches=np.array([micro_batches]),
        scaling=scaling,
        pipe_pairs=pipe_pairs,
        forward_s=np.array([forward]),
        backward_s=np.array([backward]),
    )
    if scheme not in _EXACT or not _EXACT[scheme](case):
        return None
    path = SCHEMES[scheme].critical_path(case)
    return float(path.forwards[0] * forward + path.backwards[0] * backward)


def _chimera_is_exact(case: Case) -> bool:
    """A short last unit is exact when alone or when B <= F; doubling has no formula for an odd N/D."""
    units, rest = divmod(int(case.micro_batches[0]), case.depth)
    if rest:
        alone_or_short = units == 0 or bool(case.backward_s[0] <= case.forward_s[0])
        return case.scaling == "direct" and case.pipe_pairs == 1 and alone_or_short
    return case.scaling != "doubling" or units % 2 == 0


_EXACT: dict[str, Callable[[Case], bool]] = {
    "gpipe": lambda _: True,
    "dapple": lambda _: True,
    "gems": lambda case: bool(case.backward_s[0] >= case.forward_s[0]),
    "chimera": _chimera_is_exact,
}
"""Whether C_f·F + C_b·B of the planned schemes is exact."""


def _split_bubble(depth: int, micro_batches: int, pending: int) -> float | None:
    return None if micro_batches % depth else max(depth - 1 - pending, depth // 2 - 1)


_BUBBLES: dict[str, Callable[[int, int, int], float | None]] = {
    "zb_h1": lambda depth, micro_batches, _: depth - 1 if micro_batches >= depth else None,
    "zb_v": lambda depth, micro_batches, _: (depth - 1) / 2 if micro_batches >= 2 * depth - 1 else None,
    "dualpipe": lambda depth, *_: depth - 2,
    "chimera_split": _split_bubble,
}
"""Bubble in units of F = I = W, of D, N and the pending limit; ZB-V's is the wait for the turn of its V."""
