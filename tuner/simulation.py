"""When does every step of a lowered program run? An exact simulation under given costs.

Ranks run their steps in order. A message leaves when it has been sent and its receive posted, and arrives
after the link's latency and the time its bytes take; it occupies its link (one for each ordered pair of
ranks) for the latter, in the order in which messages are used, and does not block a rank. A collective runs
when its last member has arrived and, of those before it on the same ranks, fewer than `lanes` still run;
the UPDATE waits for it. Every time is the end of another event plus a cost, so equal inputs give equal
times. `tuner.interference` adds that collectives slow computation down.
"""

from array import array

import numpy as np

from tuner.errors import DeadlockError
from tuner.interference import slowed
from tuner.operation_costs import Floats, OperationCosts, durations, transfer_times
from tuner.schedules.collectives import CollectiveClock, awaited, held_by
from tuner.schedules.compiled import NONE, Compiled, compile_program
from tuner.schedules.program import Integers, Program
from tuner.timeline import Timeline

NOT_YET = -1.0
SLOW = -2
"""Instead of the event that sends an input: more than one thing is waited for."""


def simulate(program: Program | Compiled, costs: OperationCosts) -> Timeline:
    """The timeline of a lowered program; raises DeadlockError if its steps wait for each other."""
    compiled = program if isinstance(program, Compiled) else compile_program(program)
    timeline = _Run(compiled, costs).timeline()
    return slowed(timeline, costs) if costs.interferes else timeline


class _Run:
    """One pass over all events: each rank goes on until it waits for something that has not happened yet.

    A rank sleeps on the event that sends its input, or on ~instance of a collective, which counts from the
    end of `_asleep`; those that sleep on the same thing form a chain through `_behind`.
    """

    def __init__(self, compiled: Compiled, costs: OperationCosts) -> None:
        self._compiled = compiled
        self._duration = durations(compiled, costs).tolist()
        self._delay, self._occupied = transfer_times(compiled, costs)
        self._clock = CollectiveClock(compiled, costs.sync_s.tolist(), lanes=costs.lanes)
        self._awaited = awaited(compiled, self._clock)
        transfers, first = compiled.transfers, compiled.inputs[0]
        self._link = transfers.source * compiled.program.depth + transfers.target
        self._link_free = [0.0] * compiled.program.depth**2
        self._start = array("d", bytes(8 * len(compiled.rank)))
        self._done = [NOT_YET] * len(compiled.rank) + [0.0]
        """When each rank goes on after each event; the last entry, at NONE, is the start of the program."""
        self._left = array("d", bytes(8 * len(compiled.rank)))
        """When the message leaves that is the plain input of an event."""
        self._slow_left: dict[int, float] = {}
        """When each other message leaves."""
        self._ready = list(range(compiled.program.depth))
        self._asleep = [NONE] * (len(compiled.rank) + len(self._clock.end))
        self._behind = [NONE] * compiled.program.depth
        self._sender = self._senders().tolist()
        self._message = [
            np.append(column, 0)[first].tolist()
            for column in (transfers.posted_by, self._delay, self._link, self._occupied)
        ]
        """Of the input of each event: posted by, delay, link, and how long that is occupied."""

    def timeline(self) -> Timeline:
        """Run everything."""
        begins = self._compiled.begins
        positions = begins[:-1]
        self._sweep(positions, begins[1:])
        stuck = [at for at, end in zip(positions, begins[1:], strict=True) if at < end]
        if stuck:
            raise DeadlockError(self._compiled.describe(stuck))
        return self._finish()

    def _senders(self) -> Integers:
        """The event that sends each event's input; NONE without one, SLOW where that is not all."""
        first, second = self._compiled.inputs
        senders = np.append(self._compiled.transfers.sent_by, NONE)[first]
        senders[(second != NONE) | ((first != NONE) & (senders == NONE))] = SLOW
        senders[[*self._awaited, *self._clock.instance_of]] = SLOW
        return senders

    def _sweep(self, positions: list[int], ends: list[int]) -> None:  # noqa: C901 (calls would double its time)
        """Let every rank run from its position as far as it gets, until none gets further."""
        start, done, duration, left = self._start, self._done, self._duration, self._left
        sender, (poster, delay, link, occupied) = self._sender, self._message
        free, asleep, behind, ready = self._link_free, self._asleep, self._behind, self._ready
        clocks = [0.0] * len(positions)
        for rank in ready:  # which grows as ranks are woken
            at, last, now = positions[rank], ends[rank], clocks[rank]
            while at < last:
                begin, blocker = now, sender[at]
                if blocker >= 0:
                    leaves = done[blocker]
                    if leaves < 0:
                        asleep[blocker], behind[rank] = rank, asleep[blocker]
                        break
                    posted, route = done[poster[at]], link[at]
                    if posted > leaves:  # noqa: PLR1730 (max takes twice as long)
                        leaves = posted
                    if free[route] > leaves:  # noqa: PLR1730
                        leaves = free[route]
                    left[at], free[route] = leaves, leaves + occupied[at]
                    leaves += delay[at]
                    if leaves > now:
                        begin = leaves
                elif blocker == SLOW:
                    unknown, begin = self._slow_start(at, now)
                    if unknown is not None:
                        asleep[unknown], behind[rank] = rank, asleep[unknown]
                        break
                start[at] = begin
                done[at] = now = begin + duration[at]
                if asleep[at] >= 0:
                    self._wake(at)
                at += 1
            positions[rank], clocks[rank] = at, now

    def _wake(self, blocker: int) -> None:
        sleeper = self._asleep[blocker]
        while sleeper != NONE:
            self._ready.append(sleeper)
            sleeper = self._behind[sleeper]

    def _slow_start(self, event: int, now: float) -> tuple[int | None, float]:
        """What an event waits for, or None, and when it may start: one for which `_senders` says SLOW."""
        if event in self._awaited or event in self._clock.instance_of:
            return self._collective(event, now)
        transfers = [int(column[event]) for column in self._compiled.inputs if column[event] != NONE]
        for transfer in transfers:
            sender = int(self._compiled.transfers.sent_by[transfer])
            if self._done[sender] < 0:
                return sender, now
        return None, max(now, *map(self._arrival, transfers))

    def _arrival(self, transfer: int) -> float:
        """When a message is there: it leaves when sent, posted and its link free."""
        transfers, route = self._compiled.transfers, int(self._link[transfer])
        sent, posted = self._done[transfers.sent_by[transfer]], self._done[transfers.posted_by[transfer]]
        leaves = max(sent, posted, self._link_free[route])
        self._link_free[route] = leaves + float(self._occupied[transfer])
        self._slow_left[transfer] = leaves
        return float(leaves + self._delay[transfer])

    def _collective(self, event: int, now: float) -> tuple[int | None, float]:
        """Arrive at a SYNC, or wait for the collectives before an UPDATE."""
        instance = self._clock.instance_of.get(event)
        if instance is not None:
            for settled in self._clock.arrive(instance, now + self._duration[event]):
                self._wake(~settled)
            return None, now
        for awaited_instance in self._awaited[event]:
            end = self._clock.end[awaited_instance]
            if end is None:
                return ~awaited_instance, now
            now = max(now, end)
        return None, now

    def _finish(self) -> Timeline:
        start, done = np.array(self._start), np.array(self._done)
        end = done[:-1].copy()
        for event, instance in self._clock.instance_of.items():
            begun, ended = self._clock.start[instance], self._clock.end[instance]
            if begun is None or ended is None:
                raise DeadlockError(self._compiled.describe([event]))
            start[event], end[event] = begun, ended
        left = self._departures()
        held = held_by(self._clock, self._awaited, self._done)
        return Timeline(self._compiled, start, end, done, left, left + self._delay, held)

    def _departures(self) -> Floats:
        """When each message leaves."""
        left = np.zeros(len(self._delay))
        plain = np.flatnonzero(np.array(self._sender) >= 0)
        left[self._compiled.inputs[0][plain]] = np.array(self._left)[plain]
        left[list(self._slow_left)] = list(self._slow_left.values())
        return left
