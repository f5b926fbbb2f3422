"""What do the ranks of one pipeline group agree and send over? Process groups of their own.

Every process of the job calls these, in the same order.
"""

from collections.abc import Sequence

import torch.distributed as dist


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
