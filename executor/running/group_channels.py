"""What do the ranks of one pipeline group agree and send over? Process groups of their own.

Every process of the job calls these, in the same order.
"""

from collections.abc import Sequence
from datetime import timedelta
from weakref import WeakValueDictionary

import torch
import torch.distributed as dist

_upward: WeakValueDictionary[tuple[tuple[int, ...], ...], dist.ProcessGroup] = WeakValueDictionary()
"""The own one of those made, by the ranks of all pipeline groups."""


def control_group(ranks: Sequence[Sequence[int]], *, own: int) -> dist.ProcessGroup | None:
    """What a pipeline group agrees over, on the CPU; None where the default group serves."""
    if len(ranks) == 1 and dist.get_backend() == "gloo":
        return None
    made: list[dist.ProcessGroup] = [dist.new_group(list(members), backend="gloo") for members in ranks]
    return made[own]


def transfer_group(ranks: Sequence[Sequence[int]], *, own: int) -> dist.ProcessGroup:
    """A communicator of the messages alone, beside those of the collectives."""
    made: list[dist.ProcessGroup] = [dist.new_group(list(members), backend="nccl") for members in ranks]
    return made[own]


def upward_group(ranks: Sequence[Sequence[int]], *, own: int) -> dist.ProcessGroup | None:
    """What carries messages to ranks of lower numbers over gloo (`executor.transport.gloo` says why).

    None where a pipeline group has one rank. Like the default group, which carries the others, it serves all
    pipelines of these ranks, lives as long as they, and gives up as late.
    """
    if len(ranks[own]) == 1:
        return None
    key = tuple(tuple(members) for members in ranks)
    known = _upward.get(key)
    if known is None or not _is_registered(known):
        timeout = _default_timeout()
        made: list[dist.ProcessGroup] = [
            dist.new_group(list(members), backend="gloo", timeout=timeout) for members in key
        ]
        known = _upward[key] = made[own]
    return known


def _is_registered(group: dist.ProcessGroup) -> bool:
    """Whether it has not been destroyed."""
    try:
        dist.get_group_rank(group, dist.get_rank())
    except ValueError:
        return False
    return True


def _default_timeout() -> timedelta | None:
    """Of the default group, where that is of gloo."""
    everyone = dist.group.WORLD
    if everyone is None or "gloo" not in dist.get_backend_config():
        return None
    timeout: timedelta = everyone._get_backend(torch.device("cpu")).options._timeout
    return timeout
