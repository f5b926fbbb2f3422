"""Where does each message of a rank go, under which tags, and what does it hold?"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from torch import Tensor

from executor.errors import ConfigurationError, TransportError
from executor.values import Spec, Tensors, check
from tuner.schedules.messages import Message, message_of
from tuner.schedules.program import RECEIVES, SENDS, Program

Key = tuple[bool, int, int, int, int]
"""A message in any iteration: (forward, pipe, cut, micro-batch, part)."""

MAX_TENSORS = 64
"""Tensors of one message; each has a tag of its own."""
FIRST_HEADER_TAG = 2**31 - 2**20
"""Gloo takes tags up to 2³¹ − 1; those from here on are for headers."""


class Route(NamedTuple):
    """What is known of a message before any shapes are."""

    peer: int
    """The other rank in the process group that carries it."""
    tag: int
    """Of its first tensor."""
    title: str
    """For people."""
    upward: bool = False
    """Whether it goes to a rank of a lower number in the program."""


class Channel(NamedTuple):
    """A route with what travels on it; an empty tensor does not travel."""

    peer: int
    upward: bool
    title: str
    specs: tuple[Spec, ...]
    parcels: tuple[tuple[int, int], ...]
    """(place in the message, tag) of every tensor that travels."""
    bytes: int


@dataclass
class Counters:
    """What was sent to other ranks."""

    messages: int = 0
    """Messages of at least one tensor."""
    tensors: int = 0
    bytes: int = 0

    def add(self, channel: Channel) -> None:
        """One message more."""
        if channel.parcels:
            self.messages += 1
            self.tensors += len(channel.parcels)
            self.bytes += channel.bytes


@dataclass
class Channels:
    """The messages of one rank; `expect` gives them shapes."""

    routes: Mapping[Key, Route]
    counters: Counters = field(default_factory=Counters)
    _known: dict[Key, Channel] = field(default_factory=dict)

    def expect(self, specs: Mapping[Key, tuple[Spec, ...]]) -> None:
        """From now on messages hold this; keys of messages between other ranks are passed over."""
        for key, announced in specs.items():
            route = self.routes.get(key)
            if route is None:
                continue
            known = self._known.get(key)
            if known is None or known.specs != announced:
                self._known[key] = _channel(route, announced)

    def find(self, message: Message) -> Channel:
        """Raises TransportError for a message that is not this rank's, or whose shapes are not known."""
        try:
            return self._known[message[:5]]
        except KeyError:
            raise TransportError(self._why_unknown(message)) from None

    def leaving(self, message: Message, tensors: Tensors) -> Channel:
        """The channel of a value on its way out; raises BoundaryError if it is not what was announced."""
        channel = self.find(message)
        check(tensors, channel.specs, message=channel.title)
        self.counters.add(channel)
        return channel

    def _why_unknown(self, message: Message) -> str:
        if message[:5] in self.routes:
            return f"{describe(message)}: its shapes were not announced; call expect() before the iteration"
        return f"{describe(message)} is not sent or received by this rank: it is local, or of another program"


def routes_of(
    program: Program, rank: int, *, peers: Sequence[int], upward_peers: Sequence[int] | None = None
) -> dict[Key, Route]:
    """The routes of one rank of a lowered program.

    peers[r] is program rank r in the process group; `upward_peers` in that of what goes upward, if another.
    """
    numbers = _Numbers.of(program)
    routes: dict[Key, Route] = {}
    for step in program.ranks[rank]:
        op = step[0]
        if op.kind not in SENDS and op.kind not in RECEIVES:
            continue
        message = message_of(op)
        source, target = message.source(program), message.target(program)
        if source == target:
            raise ConfigurationError(
                f"{describe(message)}: rank {rank} sends it to itself; what stays there has no SEND or RECV"
            )
        title = f"{describe(message)}, from rank {source} to rank {target}"
        upward = target < source
        numbered = upward_peers if upward and upward_peers is not None else peers
        peer = numbered[target if source == rank else source]
        routes[message[:5]] = Route(peer, numbers.of_message(message) * MAX_TENSORS, title, upward)
    return routes


def describe(message: Message) -> str:
    """A message for people, the same in every iteration."""
    forward, pipe, cut, micro_batch, part, _ = message
    what = f"the activation of micro-batch {micro_batch}" if forward else f"the gradient {micro_batch}.{part}"
    return f"{what} between stages {cut} and {cut + 1} of pipe {pipe}"


def as_leaves(tensors: Sequence[Tensor], specs: Sequence[Spec]) -> Tensors:
    """Received tensors, requiring gradients where the specs say so."""
    for tensor, spec in zip(tensors, specs, strict=True):
        if spec.needs_gradient:
            tensor.requires_grad_()
    return tuple(tensors)


def lost(title: str, error: RuntimeError) -> TransportError:
    """What to raise when torch.distributed gives up on a message."""
    return TransportError(
        f"{title}: did not get through ({error}). The other rank has ended or is stuck; the first failure is "
        "in its output"
    )


def left_over(titles: Iterable[str]) -> TransportError:
    """What to raise when an iteration ends with receives that nothing waited for."""
    return TransportError(f"receives were posted that nothing waited for: {'; '.join(titles)}")


class _Numbers(NamedTuple):
    """Dense numbers of the messages of a program."""

    pipes: int
    stages: int
    micro_batches: int
    parts: int

    @classmethod
    def of(cls, program: Program) -> "_Numbers":
        parts = int(np.max(program.columns.parts, initial=1))
        numbers = cls(program.pipes, program.stages, program.micro_batches, parts)
        tags = 2 * int(np.prod(numbers, dtype=object)) * MAX_TENSORS
        if tags > FIRST_HEADER_TAG:
            raise ConfigurationError(
                f"{tags} tags are needed for {program.pipes} pipes of {program.stages} stages and "
                f"{program.micro_batches} micro-batches in {parts} parts, and there are {FIRST_HEADER_TAG}: "
                "use fewer micro-batches"
            )
        return numbers

    def of_message(self, message: Message) -> int:
        number = int(message.forward)
        fields = (message.pipe, message.cut, message.micro_batch, message.part)
        for value, size in zip(fields, self, strict=True):
            number = number * size + value
        return number


def _channel(route: Route, specs: tuple[Spec, ...]) -> Channel:
    if len(specs) > MAX_TENSORS:
        raise ConfigurationError(
            f"{route.title}: {len(specs)} tensors, and at most {MAX_TENSORS} can travel in one message: "
            "stack some of them"
        )
    parcels = tuple((place, route.tag + place) for place, spec in enumerate(specs) if spec.bytes)
    return Channel(route.peer, route.upward, route.title, specs, parcels, sum(spec.bytes for spec in specs))
