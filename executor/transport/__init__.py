"""How do activations and gradients get from rank to rank?

`make_transport` gives what carries the messages of one rank of a lowered program; `send_header` and
`receive_header` tell the shapes ahead of them.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import torch
import torch.distributed as dist

from executor.errors import ConfigurationError
from executor.transport.channels import Channels, Counters, Key, routes_of
from executor.transport.gloo import GlooTransport, StagedGlooTransport
from executor.transport.headers import receive_header, send_header
from executor.transport.nccl import NcclTransport
from executor.transport.orders import check_common_order, check_one_by_one
from executor.values import Spec, Tensors
from tuner.schedules.messages import Message
from tuner.schedules.program import Program

__all__ = ["Backend", "Counters", "Key", "Transport", "make_transport", "receive_header", "send_header"]

Backend = Literal["gloo", "nccl"]


class Transport(Protocol):
    """The messages of one rank; those of an iteration end with `finish`."""

    @property
    def counters(self) -> Counters:
        """What was sent to other ranks so far."""

    def expect(self, specs: Mapping[Key, tuple[Spec, ...]]) -> None:
        """Announce what messages hold, by (forward, pipe, cut, micro-batch, part); others' are ignored."""

    def exchange(self, sends: Sequence[tuple[Message, Tensors]], receives: Sequence[Message]) -> None:
        """Start sends and post receives that stand next to each other in the program; returns at once.

        What is sent must not change until it is released. Raises BoundaryError if it is not what was
        announced.
        """

    def wait(self, message: Message) -> Tensors:
        """What came: leaves, which require gradients where the spec says so; raises TransportError."""

    def release(self, messages: Sequence[Message]) -> None:
        """Let go of sends that are known to have arrived (`executor.running.releases`); returns at once."""

    def finish(self) -> None:
        """End an iteration: everything sent has been received."""


def make_transport(
    program: Program,
    rank: int,
    *,
    group_ranks: Sequence[int],
    device: torch.device,
    backend: Backend,
    group: dist.ProcessGroup | None = None,
    upward: dist.ProcessGroup | None = None,
) -> Transport:
    """What carries the messages of one rank of a lowered program; group_ranks[r] is global rank of r.

    `group` holds all of them and is the default group unless given. So does `upward`, which over gloo carries
    what goes to ranks of lower numbers in the program; without it, `group` does. Over NCCL the program must
    be in a common order, and every rank of the group must call this: it makes the communicator. Raises
    ConfigurationError.
    """
    if len(group_ranks) != program.depth:
        raise ConfigurationError(f"{len(group_ranks)} global ranks for a program of {program.depth} ranks")
    group = dist.group.WORLD if group is None else group
    if group is None:
        raise ConfigurationError("there is no process group: call torch.distributed.init_process_group first")
    if backend == "nccl" or upward is None:
        upward = group
    peers, upward_peers = (
        [dist.get_group_rank(each, other) for other in group_ranks] for each in (group, upward)
    )
    channels = Channels(routes_of(program, rank, peers=peers, upward_peers=upward_peers))
    if backend == "nccl":
        if device.type != "cuda":
            raise ConfigurationError(f"NCCL carries tensors of CUDA devices only, not of {device}: use gloo")
        check_common_order(program)
        check_one_by_one(program)
        dist.all_reduce(torch.zeros(1, device=device), group=group)
        return NcclTransport(channels, group=group, device=device)
    if device.type == "cuda":
        return StagedGlooTransport(channels, group=group, upward=upward, device=device)
    if device.type != "cpu":
        raise ConfigurationError(f"gloo carries tensors of CPUs and CUDA devices only, not of {device}")
    return GlooTransport(channels, group=group, upward=upward)
