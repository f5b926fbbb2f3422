"""How do messages travel over gloo? Every tensor under a tag of its own, so that none waits behind another.

Gloo completes a send once its receive is posted, and reads the tensor until then: what is sent is kept until
it is waited for. Sends and receives are never batched; that buys nothing over gloo and has hung
(pytorch/PiPPy#1130).

Two groups carry the two directions, so that a connection is used in one. Gloo holds the lock of a connection
while it writes a payload; what comes in meanwhile has gloo's own thread ask for the lock again and again, if
it must on the core of the thread that holds it. 1F1B's neighbours send to each other at the same moment: over
one group gloo's threads take twice the time.
"""

from collections.abc import Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from executor.errors import TransportError
from executor.transport.channels import Channel, Channels, Counters, Key, as_leaves, left_over, lost
from executor.values import Spec, Tensors
from tuner.schedules.messages import Message


class GlooTransport:
    """The messages of one rank, as tensors in host memory."""

    def __init__(
        self, channels: Channels, *, group: dist.ProcessGroup, upward: dist.ProcessGroup | None = None
    ) -> None:
        """`upward` carries what goes to ranks of lower numbers; it is `group` unless given."""
        self._channels = channels
        self._groups = group, upward or group
        self._posted: dict[Message, tuple[Channel, list[Tensor], list[dist.Work]]] = {}
        self._sent: dict[Message, tuple[Channel, list[Tensor], list[dist.Work]]] = {}

    @property
    def counters(self) -> Counters:
        """What was sent so far."""
        return self._channels.counters

    def expect(self, specs: Mapping[Key, tuple[Spec, ...]]) -> None:
        """Announce what messages hold, by (forward, pipe, cut, micro-batch, part)."""
        self._channels.expect(specs)

    def exchange(self, sends: Sequence[tuple[Message, Tensors]], receives: Sequence[Message]) -> None:
        """Start sends and post receives; returns at once.

        Raises BoundaryError for a value that is not what was announced, before anything of it leaves.
        """
        if sends:  # first: a peer waits for them, while a receive is posted well ahead of its use
            leaving = [self._channels.leaving(message, tensors) for message, tensors in sends]
            wire = self._to_host([tensors for _, tensors in sends])
            for (message, _), channel, tensors in zip(sends, leaving, wire, strict=True):
                self._send(message, channel, tensors=tensors)
        for message in receives:
            self._post(message)

    def wait(self, message: Message) -> Tensors:
        """The tensors of a posted receive: leaves, which require gradients where the spec says so."""
        if message not in self._posted:
            raise TransportError(
                f"{self._channels.find(message).title} is awaited, but no receive was posted"
            )
        channel, buffers, works = self._posted.pop(message)
        self._complete(channel, works)
        return as_leaves(self._from_host(buffers), channel.specs)

    def release(self, messages: Sequence[Message]) -> None:
        """Let go of sends that are known to have been received."""
        for message in messages:
            if message not in self._sent:
                raise TransportError(f"{self._channels.find(message).title} is released, but was not sent")
            channel, _, works = self._sent.pop(message)
            self._complete(channel, works)

    def finish(self) -> None:
        """Wait until everything sent has been received, and let go of it."""
        try:
            for channel, _, works in self._sent.values():
                self._complete(channel, works)
            if self._posted:
                raise left_over(channel.title for channel, _, _ in self._posted.values())
        finally:
            self._sent.clear()
            self._posted.clear()

    # isend and irecv of torch.distributed are these two calls behind checks of 10 µs.

    def _post(self, message: Message) -> None:
        channel = self._channels.find(message)
        buffers = [self._buffer(spec) for spec in channel.specs]
        receive, peer = self._groups[channel.upward].recv, channel.peer
        try:
            works = [receive([buffers[place]], peer, tag) for place, tag in channel.parcels]
        except RuntimeError as error:
            raise lost(channel.title, error) from error
        self._posted[message] = channel, buffers, works

    def _send(self, message: Message, channel: Channel, *, tensors: Sequence[Tensor]) -> None:
        kept = [_plain(tensors[place]) for place, _ in channel.parcels]
        send, peer = self._groups[channel.upward].send, channel.peer
        try:
            works = [
                send([tensor], peer, tag) for tensor, (_, tag) in zip(kept, channel.parcels, strict=True)
            ]
        except RuntimeError as error:
            raise lost(channel.title, error) from error
        self._sent[message] = channel, kept, works

    def _complete(self, channel: Channel, works: Sequence[dist.Work]) -> None:
        try:
            for work in works:
                work.wait()
        except RuntimeError as error:
            raise lost(channel.title, error) from error

    def _buffer(self, spec: Spec) -> Tensor:
        return torch.empty(spec.shape, dtype=spec.dtype)

    def _to_host(self, values: Sequence[Tensors]) -> Sequence[Sequence[Tensor]]:
        return values

    def _from_host(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        return tensors


class StagedGlooTransport(GlooTransport):
    """The same for tensors on a CUDA device, through page-locked host memory.

    A send waits on the host until the device has made its value: a message that only left in a later call
    could keep a peer waiting while this rank waits in a collective.
    """

    def __init__(
        self,
        channels: Channels,
        *,
        group: dist.ProcessGroup,
        upward: dist.ProcessGroup | None = None,
        device: torch.device,
    ) -> None:
        super().__init__(channels, group=group, upward=upward)
        self._device = device

    def _buffer(self, spec: Spec) -> Tensor:
        return torch.empty(spec.shape, dtype=spec.dtype, pin_memory=True)

    def _to_host(self, values: Sequence[Tensors]) -> Sequence[Sequence[Tensor]]:
        copies = [[self._page_locked(tensor) for tensor in tensors] for tensors in values]
        torch.cuda.current_stream(self._device).synchronize()
        return copies

    def _page_locked(self, tensor: Tensor) -> Tensor:
        copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        return copy.copy_(tensor.detach(), non_blocking=True)

    def _from_host(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        # The allocator of page-locked memory keeps a buffer until the copies that read it are done.
        return [tensor.to(self._device, non_blocking=True) for tensor in tensors]


def _plain(tensor: Tensor) -> Tensor:
    """The tensor as it lies in memory: contiguous, with no lazy conjugate or sign."""
    if tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg():
        return tensor
    return tensor.detach().resolve_conj().resolve_neg().contiguous()
