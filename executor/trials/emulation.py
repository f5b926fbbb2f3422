"""How does a program run when every stage only takes its time? Sleeps for computation, real messages.

Many ranks share a few cores this way: what is checked is the schedule, the order of messages and the model,
not the bandwidth of the machine (`tuner.simulation` predicts the same program).
"""

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from executor.values import Spec, Tensors
from executor.weights.groups import ParameterGroups
from executor.works import Passage, Target
from tuner.emulation import Emulation
from tuner.schedules.program import Op

_PR_SET_TIMERSLACK = 29
_ELEMENT_BYTES = 4


class EmulatedWork:
    """A stage that sleeps for its durations and gives messages of the real size."""

    def __init__(self, costs: Emulation, *, share: int, last: bool) -> None:
        """`share` is the number of stages among which a rank's time is divided."""
        backward = costs.backward_s + costs.recompute_s
        weight = costs.backward_s / 2 if costs.weight_gradient_s is None else costs.weight_gradient_s
        self._forward_s = costs.forward_s / share
        self._backward_s = backward / share
        self._weight_s = weight / share
        self._recompute_s = costs.recompute_s / share
        self._elements = max(1, costs.message_bytes // _ELEMENT_BYTES)
        self._last = last
        self._parts: dict[Passage, int] = {}

    def probe(self, inputs: tuple[Spec, ...], *, parts: int = 1) -> tuple[Spec, ...]:
        """One tensor of the message's size."""
        return () if self._last else (Spec((parts, -(-self._elements // parts)), torch.float32, True),)

    def forward(
        self,
        passage: Passage,
        inputs: Tensors,
        *,
        parts: int = 1,
        version: int = 0,
        target: Target | None = None,
    ) -> Tensors:
        """Sleep for a forward."""
        with lasting(self._forward_s):
            self._parts[passage] = parts
            return tuple(self._message(spec) for spec in self.probe((), parts=parts))

    def backward(self, passage: Passage, gradients: Tensors, *, part: int = 0) -> Tensors:
        """Sleep for a whole backward, or for its part of one."""
        return self._back(passage, self._backward_s)

    def input_backward(self, passage: Passage, gradients: Tensors, *, part: int = 0) -> Tensors:
        """Sleep for what is not deferred."""
        return self._back(passage, self._backward_s - self._weight_s)

    def weight_backward(self, passage: Passage, *, part: int = 0) -> None:
        """Sleep for what was deferred."""
        sleep(self._weight_s)

    def recompute(self, passage: Passage, *, part: int = 0) -> None:
        """Sleep for a forward that was not kept."""
        sleep(self._recompute_s)

    def _back(self, passage: Passage, seconds: float) -> Tensors:
        parts = self._parts[passage]
        with lasting(seconds / parts):
            return (self._message(Spec((1, -(-self._elements // parts)), torch.float32, True)),)

    def _message(self, spec: Spec) -> Tensor:
        return torch.zeros(spec.shape, dtype=spec.dtype)


class EmulatedUpdates:
    """Collectives and optimizer steps that only take their time.

    An all-reduce ends `all_reduce_s` after its last member arrived: the members exchange their moments of
    arrival, which the clock of one machine can compare; on several it counts from when a rank comes to wait
    for it. Those of one rank run side by side.
    """

    def __init__(self, costs: Emulation, groups: ParameterGroups, *, one_machine: bool = True) -> None:
        self._costs = costs
        self._groups = groups
        self._one_machine = one_machine
        self._pending: list[tuple[Tensor, Any, float]] = []

    def start(self, op: Op) -> None:
        """Tell the other members when this rank came."""
        group = self._groups.process_group(op.group)
        if group is None:
            return
        arrival = torch.tensor([time.monotonic()], dtype=torch.float64)
        work = dist.all_reduce(arrival, dist.ReduceOp.MAX, group=group, async_op=True)
        self._pending.append((arrival, work, self._costs.all_reduce_s / op.parts))

    def settle(self, op: Op) -> None:
        """Sleep until the last collective has ended.

        With few lanes a collective waits for one of this rank; where other members hold other groups, theirs
        may be free earlier.
        """
        lanes = [0.0] * (self._costs.lanes or max(1, len(self._pending)))
        for arrival, work, length in self._pending:
            work.wait()
            arrived = arrival.item() if self._one_machine else time.monotonic()
            free = lanes.index(min(lanes))
            lanes[free] = max(arrived, lanes[free]) + length
        self._pending.clear()
        sleep_until(max(lanes))

    def update(self, op: Op) -> None:
        """Sleep for an optimizer step."""
        sleep(self._costs.update_s)


@contextmanager
def lasting(seconds: float) -> Iterator[None]:
    """What is done inside, and a sleep behind it, take so long together."""
    end = time.monotonic() + seconds
    yield
    sleep_until(end)


def sleep(seconds: float) -> None:
    """Sleep as exactly as the system can."""
    if seconds > 0:
        sleep_until(time.monotonic() + seconds)


def sleep_until(moment: float) -> None:
    """Sleep until a moment of the monotonic clock."""
    left = moment - time.monotonic()
    if left > 0:
        time.sleep(left)


def sharpen_sleep() -> None:
    """Have the system wake this process without the 50 µs by which it may be late; Linux only."""
    if os.uname().sysname == "Linux":
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
