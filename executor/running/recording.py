"""When did everything happen? The times of one run of a program, as a timeline like the simulated one."""

import time
from collections.abc import Sequence

import numpy as np

from tuner.schedules.compiled import NONE, Compiled, compile_program
from tuner.schedules.program import Kind, Program
from tuner.timeline import Floats, Timeline

REACHED, BEGUN, ENDED = range(3)
"""Rows of a recording."""

_WAITED_S = 50e-6
"""A shorter time between coming to an operation and starting it is not taken for waiting."""


class Recording:
    """The moments at which one rank came to, began and ended its events, in seconds [3, event].

    They are of the monotonic clock, which the processes of one machine share.
    """

    def __init__(self, events: int) -> None:
        self.moments = np.zeros((3, events))
        self._reached, self._begun, self._ended = self.moments

    def reach(self, event: int) -> None:
        """The rank comes to an event, whose input may be awaited."""
        self._reached[event] = time.monotonic()

    def begin(self, event: int) -> None:
        """The input is there; of a fused pair the first counts, since both start together."""
        if self._begun[event] < self._reached[event]:
            self._begun[event] = time.monotonic()

    def end(self, event: int) -> None:
        """The operation is done; of a fused pair the second."""
        self._ended[event] = time.monotonic()

    def copy(self) -> Floats:
        """The moments of the last run."""
        return self.moments.copy()


class Unrecorded:
    """For whom the moments do not matter."""

    def reach(self, event: int) -> None:
        """Nothing is kept."""

    def begin(self, event: int) -> None:
        """Nothing is kept."""

    def end(self, event: int) -> None:
        """Nothing is kept."""


def count_events(program: Program, rank: int) -> int:
    """Steps of a rank that are not SEND or RECV."""
    compiled = compile_program(program)
    return compiled.begins[rank + 1] - compiled.begins[rank]


def measured_timeline(program: Program, moments: Sequence[Floats], *, start_s: float) -> Timeline:
    """The timeline of a run from the moments of all ranks [rank][3, event], counted from `start_s`.

    A collective is shown to end when its rank had waited for it. A message leaves when it has been sent and
    its receive posted, and has arrived by the time its receiver went on.
    """
    compiled = compile_program(program)
    reached, begun, ended = np.concatenate(moments, axis=1) - start_s
    kind = program.columns.kind[compiled.first]
    done = np.append(ended, 0.0)
    left = np.maximum(done[compiled.transfers.sent_by], done[compiled.transfers.posted_by])
    arrival = _arrivals(compiled, reached, begun, left=left)
    shown = np.where(kind == Kind.SYNC, _settled(compiled, begun), ended)
    return Timeline(compiled, begun, shown, done, left, arrival, _held_by(compiled))


def _arrivals(compiled: Compiled, reached: Floats, begun: Floats, *, left: Floats) -> Floats:
    arrival = left.copy()
    waited = begun - reached > _WAITED_S
    for inputs in compiled.inputs:
        events = np.flatnonzero(inputs != NONE)
        transfers = inputs[events]
        known = np.where(waited[events], begun[events], np.minimum(begun[events], left[transfers]))
        arrival[transfers] = np.maximum(known, left[transfers])
    return arrival


def _settled(compiled: Compiled, begun: Floats) -> Floats:
    """For every event the beginning of the next UPDATE on its rank: the collectives before it have ended."""
    kind = compiled.program.columns.kind[compiled.first]
    settled = begun.copy()
    for begin, end in zip(compiled.begins[:-1], compiled.begins[1:], strict=True):
        upcoming = begun[end - 1] if end > begin else 0.0
        for event in range(end - 1, begin - 1, -1):
            if kind[event] == Kind.UPDATE:
                upcoming = begun[event]
            settled[event] = max(upcoming, begun[event])
    return settled


def _held_by(compiled: Compiled) -> dict[int, int]:
    """For each UPDATE behind SYNCs the last of these, which it waited for."""
    kind = compiled.program.columns.kind[compiled.first]
    held: dict[int, int] = {}
    last = NONE
    for event, what in enumerate(kind.tolist()):
        if event in compiled.begins:
            last = NONE
        if what == Kind.SYNC:
            last = event
        elif what == Kind.UPDATE and last != NONE:
            held[event], last = last, NONE
    return held
