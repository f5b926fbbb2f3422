"""How is a program walked with payloads that say which message they are?

Every rank goes through its lowered program, sends values that are a function of the message alone, and
compares what it gets with that function: a payload that took another's place is seen.
"""

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from executor.running.releases import release_points
from executor.transport import Key, Transport
from executor.values import Spec, Tensors, gradient_specs
from tuner.schedules.generators import generate
from tuner.schedules.lowering import lower
from tuner.schedules.messages import Message, message_of, needed_by
from tuner.schedules.ordering import in_common_order
from tuner.schedules.program import RECEIVES, SENDS, Op, Program

ACTIVATION = (
    Spec((2, 3), torch.float32, True),
    Spec((4,), torch.int64, False),
    Spec((5, 1), torch.bool, False),
    Spec((0, 5), torch.float32, True),
    Spec((), torch.float64, True),
    Spec((3,), torch.bfloat16, False),
    Spec((2,), torch.complex64, False),
    Spec((3,), torch.int16, False),
)
"""What tests send forward unless they say otherwise; an empty tensor and integers among them."""


def lowered(scheme: str, *, depth: int, micro_batches: int, ordered: bool = False, **options: Any) -> Program:
    """A lowered program; `ordered` for transports without tags."""
    program = lower(generate(scheme, depth=depth, micro_batches=micro_batches, **options))
    return in_common_order(program) if ordered else program


def specs_for(program: Program, activation: Sequence[Spec] = ACTIVATION) -> dict[Key, tuple[Spec, ...]]:
    """The same specs for every message of a program."""
    messages = {message_of(step[0])[:5] for steps in program.ranks for step in steps if _travels(step[0])}
    gradient = gradient_specs(activation)
    return {key: tuple(activation) if key[0] else gradient for key in messages}


def payload(message: Message, specs: Sequence[Spec]) -> Tensors:
    """Values that no other message has: a few thousand numbers, exact in every dtype but bool."""
    forward, *numbers = message
    identity = int(forward)
    for number in numbers:
        identity = identity * 13 + number
    return tuple(_filled(spec, identity + 31 * place) for place, spec in enumerate(specs))


@dataclass
class Walked:
    """What a rank saw while it walked."""

    checked: int = 0
    """Messages whose payload was what it should be."""
    most_kept: int = 0
    """Most sent values alive at once, looked at after every operation."""
    flags: set[tuple[bool, bool]] = field(default_factory=set)
    """(forward, requires_grad) of every tensor that came."""


def walk(
    program: Program,
    rank: int,
    transport: Transport,
    *,
    specs: Mapping[Key, tuple[Spec, ...]],
    device: str | torch.device = "cpu",
) -> Walked:
    """Exchange one rank's messages, letting sends go as `releases` says; raises on a wrong one."""
    points, walked = release_points(program, rank), Walked()
    alive: list[weakref.ref[Tensor]] = []
    for travelling, group in groupby(program.ranks[rank], key=lambda step: _travels(step[0])):
        if travelling:
            ops = [step[0] for step in group]
            sends = []
            for message in (message_of(op) for op in ops if op.kind in SENDS):
                value = tuple(tensor.to(device) for tensor in payload(message, specs[message[:5]]))
                alive += [weakref.ref(tensor) for tensor in value[:1]]
                sends.append((message, value))
                del value
            transport.exchange(sends, [message_of(op) for op in ops if op.kind in RECEIVES])
            del sends
        else:
            for op in (op for step in group for op in step):
                _consume(needed_by(op, program), transport, points=points, specs=specs, walked=walked)
        alive = [reference for reference in alive if reference() is not None]
        walked.most_kept = max(walked.most_kept, len(alive))
    transport.finish()
    left = sum(reference() is not None for reference in alive)
    if left:
        raise AssertionError(f"{left} sent values are kept after the end")
    return walked


def _consume(
    message: Message | None,
    transport: Transport,
    *,
    points: Mapping[Message, tuple[Message, ...]],
    specs: Mapping[Key, tuple[Spec, ...]],
    walked: Walked,
) -> None:
    if message is None:
        return
    found = transport.wait(message)
    for place, (tensor, right) in enumerate(zip(found, payload(message, specs[message[:5]]), strict=True)):
        if tensor.dtype != right.dtype or not torch.equal(tensor.detach().cpu(), right):
            raise AssertionError(f"{message}, tensor {place}: {tensor} came instead of {right}")
        walked.flags.add((message.forward, tensor.requires_grad))
    walked.checked += 1
    transport.release(points.get(message, ()))


def _travels(op: Op) -> bool:
    return op.kind in SENDS or op.kind in RECEIVES


def _filled(spec: Spec, identity: int) -> Tensor:
    """Digits of `identity` in base 2 for bool, in base 101 elsewhere, over and over."""
    count = torch.Size(spec.shape).numel()
    base = 2 if spec.dtype == torch.bool else 101
    digits = [identity // base ** (place % 4) % base for place in range(count)]
    return torch.tensor(digits, dtype=torch.int64).to(spec.dtype).reshape(spec.shape)
