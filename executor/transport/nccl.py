"""How do messages travel over NCCL? Neighbouring transfers in one fused call, all in one order on all ranks.

NCCL knows no tags: `executor.transport.orders` says what the order must keep, and
`tuner.schedules.ordering.in_common_order` gives it. There is one communicator and no thread; waiting makes
the current stream wait, not the host.
"""

from collections.abc import Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from executor.errors import TransportError
from executor.transport.channels import Channels, Counters, Key, as_leaves, left_over, lost
from executor.values import Spec, Tensors
from tuner.schedules.messages import Message


class NcclTransport:
    """The messages of one rank, as tensors on its device."""

    def __init__(self, channels: Channels, *, group: dist.ProcessGroup, device: torch.device) -> None:
        self._channels = channels
        self._group = group
        self._device = device
        self._posted: dict[Message, tuple[list[Tensor], _Batch]] = {}
        self._sent: dict[Message, list[Tensor]] = {}
        self._batches: list[_Batch] = []

    @property
    def counters(self) -> Counters:
        """What was sent so far."""
        return self._channels.counters

    def expect(self, specs: Mapping[Key, tuple[Spec, ...]]) -> None:
        """Announce what messages hold, by (forward, pipe, cut, micro-batch, part)."""
        self._channels.expect(specs)

    def exchange(self, sends: Sequence[tuple[Message, Tensors]], receives: Sequence[Message]) -> None:
        """Start sends and receives in one fused call, in the order given; returns at once.

        Raises BoundaryError for a value that is not what was announced, before anything leaves.
        """
        calls: list[dist.P2POp] = []
        batch = _Batch()
        for message, tensors in sends:
            channel = self._channels.leaving(message, tensors)
            kept = [_as_bytes(tensors[place]) for place, _ in channel.parcels]
            calls += [self._call(dist.isend, tensor, peer=channel.peer) for tensor in kept]
            self._sent[message] = kept
        for message in receives:
            channel = self._channels.find(message)
            buffers = [torch.empty(s.shape, dtype=s.dtype, device=self._device) for s in channel.specs]
            arriving = [_as_bytes(buffers[place]) for place, _ in channel.parcels]
            calls += [self._call(dist.irecv, tensor, peer=channel.peer) for tensor in arriving]
            self._posted[message] = buffers, batch
        if calls:
            batch.start(calls)
            self._batches.append(batch)

    def wait(self, message: Message) -> Tensors:
        """The tensors of a posted receive: leaves, which require gradients where the spec says so."""
        channel = self._channels.find(message)
        if message not in self._posted:
            raise TransportError(f"{channel.title} is awaited, but no receive was posted")
        buffers, batch = self._posted.pop(message)
        batch.wait(channel.title)
        return as_leaves(buffers, channel.specs)

    def release(self, messages: Sequence[Message]) -> None:
        """Let go of sends that are known to have been received.

        The current stream already waits for a message that was made after them: whatever it puts into their
        memory comes after they were read.
        """
        for message in messages:
            if message not in self._sent:
                raise TransportError(f"{self._channels.find(message).title} is released, but was not sent")
            del self._sent[message]

    def finish(self) -> None:
        """Make the current stream wait for all transfers, and let go of what was sent."""
        try:
            for batch in self._batches:
                batch.wait("the last messages of an iteration")
            if self._posted:
                raise left_over(self._channels.find(message).title for message in self._posted)
        finally:
            self._batches.clear()
            self._sent.clear()
            self._posted.clear()

    def _call(self, kind: object, tensor: Tensor, *, peer: int) -> dist.P2POp:
        return dist.P2POp(kind, tensor, group=self._group, group_peer=peer)  # type: ignore[arg-type]


class _Batch:
    """Transfers that were started in one call; they complete together."""

    def __init__(self) -> None:
        self._works: list[dist.Work] = []

    def start(self, calls: list[dist.P2POp]) -> None:
        """Start them all."""
        try:
            self._works = dist.batch_isend_irecv(calls)
        except RuntimeError as error:
            raise lost(f"{len(calls)} fused transfers", error) from error

    def wait(self, title: str) -> None:
        """Wait once; later calls find nothing to wait for."""
        works, self._works = self._works, []
        try:
            for work in works:
                work.wait()
        except RuntimeError as error:
            raise lost(title, error) from error


def _as_bytes(tensor: Tensor) -> Tensor:
    """The tensor's memory as bytes: NCCL has no 16-bit integers, and sums nothing here."""
    return tensor.detach().resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8)
