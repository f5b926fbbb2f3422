"""When does every step of a lowered program run? An exact simulation under given costs.

Ranks run their steps in order. A message leaves when it has been sent and its receive posted, and arrives
after the link's latency and the time its bytes take; it occupies its link (one for each ordered pair of
ranks) for the latter, in the order in which messages are used, and does not block a rank. A collective runs
when its last member has arrived and, of those before it on the same ranks, fewer than `lanes` still run;
the UPDATE waits for it. Every time is the end of another event plus a cost, so equal inputs give equal
times.
"""

import numpy as np

from tuner.errors import DeadlockError
from tuner.operation_costs import OperationCosts, durations, transfer_times
from tuner.schedules.collectives import CollectiveClock, awaited
from tuner.schedules.compiled import NONE, Compiled, compile_program
from tuner.schedules.program import Program
from tuner.timeline import Timeline

NOT_YET = -1.0


def simulate(program: Program, costs: OperationCosts) -> Timeline:
    """The timeline of a lowered program; raises DeadlockError if its steps wait for each other."""
    compiled = compile_program(program)
    return _Run(compiled, costs).timeline()


class _Run:
    """One pass over all events: each rank goes on until it waits for something that has not happened yet.

    Ranks sleep on the event that sends their input, or on ~instance of a collective.
    """

    def __init__(self, compiled: Compiled, costs: OperationCosts) -> None:
        self._compiled = compiled
        self._duration = durations(compiled, costs).tolist()
        delay, occupied = transfer_times(compiled, costs)
        self._delay, self._occupied = delay.tolist(), occupied.tolist()
        self._clock = CollectiveClock(compiled, costs.sync_s.tolist(), lanes=costs.lanes)
        self._awaited = awaited(compiled, self._clock)
        self._waits = set(self._awaited) | set(self._clock.instance_of)
        transfers = compiled.transfers
        self._sent_by, self._posted_by = transfers.sent_by.tolist(), transfers.posted_by.tolist()
        self._link = (transfers.source * compiled.program.depth + transfers.target).tolist()
        self._link_free = [0.0] * compiled.program.depth**2
        self._inputs = [column.tolist() for column in compiled.inputs]
        self._first = self._inputs[0]
        self._start = [0.0] * len(compiled.rank)
        self._done = [NOT_YET] * len(compiled.rank) + [0.0]
        """When each rank goes on after each event; the last entry, at NONE, is the start of the program."""
        self._left = [0.0] * len(self._sent_by)
        self._sleepers: dict[int, list[int]] = {}
        self._woken: list[int] = []
        self._slow = self._waits | set(np.flatnonzero(compiled.inputs[1] != NONE).tolist())

    def timeline(self) -> Timeline:
        """Run everything."""
        begins = self._compiled.begins
        positions = begins[:-1]
        self._sweep(positions, begins[1:])
        stuck = [at for at, end in zip(positions, begins[1:], strict=True) if at < end]
        if stuck:
            raise DeadlockError(self._compiled.describe(stuck))
        return self._finish()

    def _sweep(self, positions: list[int], ends: list[int]) -> None:
        """Let every rank run from its position as far as it gets, until none gets further."""
        first, start, done, duration = self._first, self._start, self._done, self._duration
        sent_by, posted_by, delay, left = self._sent_by, self._posted_by, self._delay, self._left
        link, free, occupied = self._link, self._link_free, self._occupied
        sleepers, slow, ready = self._sleepers, self._slow, list(range(len(positions)))
        clocks = [0.0] * len(positions)
        while ready:
            rank = ready.pop()
            at, last, now = positions[rank], ends[rank], clocks[rank]
            while at < last:
                begin, transfer = now, first[at]
                if at in slow:
                    blocker, begin = self._slow_start(at, now)
                    if blocker is not None:
                        sleepers.setdefault(blocker, []).append(rank)
                        break
                elif transfer >= 0:
                    if done[sent_by[transfer]] < 0:
                        sleepers.setdefault(sent_by[transfer], []).append(rank)
                        break
                    route = link[transfer]
                    leaves = max(done[sent_by[transfer]], done[posted_by[transfer]], free[route])
                    left[transfer], free[route] = leaves, leaves + occupied[transfer]
                    begin = max(now, leaves + delay[transfer])
                start[at] = begin
                done[at] = now = begin + duration[at]
                if at in sleepers:
                    ready.extend(sleepers.pop(at))
                at += 1
            if self._woken:
                ready.extend(self._woken)
                self._woken.clear()
            positions[rank], clocks[rank] = at, now

    def _slow_start(self, event: int, now: float) -> tuple[int | None, float]:
        """When an event may start that waits for a collective or for two messages."""
        if event in self._waits:
            return self._collective(event, now)
        transfers = [column[event] for column in self._inputs]
        for transfer in transfers:
            if self._done[self._sent_by[transfer]] < 0:
                return self._sent_by[transfer], now
        return None, max(now, *map(self._arrival, transfers))

    def _arrival(self, transfer: int) -> float:
        """When a message is there: it leaves when sent, posted and its link free."""
        route = self._link[transfer]
        sent, posted = self._done[self._sent_by[transfer]], self._done[self._posted_by[transfer]]
        leaves = max(sent, posted, self._link_free[route])
        self._left[transfer], self._link_free[route] = leaves, leaves + self._occupied[transfer]
        return float(leaves + self._delay[transfer])

    def _collective(self, event: int, now: float) -> tuple[int | None, float]:
        """Arrive at a SYNC, or wait for the collectives before an UPDATE."""
        instance = self._clock.instance_of.get(event)
        if instance is not None:
            for settled in self._clock.arrive(instance, now):
                self._woken.extend(self._sleepers.pop(~settled, ()))
            return None, now
        for awaited_instance in self._awaited[event]:
            end = self._clock.end[awaited_instance]
            if end is None:
                return ~awaited_instance, now
            now = max(now, end)
        return None, now

    def _finish(self) -> Timeline:
        start, end = np.array(self._start), np.array(self._done[:-1])
        for event, instance in self._clock.instance_of.items():
            begun, ended = self._clock.start[instance], self._clock.end[instance]
            if begun is None or ended is None:
                raise DeadlockError(self._compiled.describe([event]))
            start[event], end[event] = begun, ended
        left, delay = np.array(self._left), np.array(self._delay)
        done = np.array(self._done)
        return Timeline(self._compiled, start, end, done, left, left + delay, self._held_by())

    def _held_by(self) -> dict[int, int]:
        """For each UPDATE the SYNC of the last member of the collective that ended last before it."""
        last_member: dict[int, int] = {}
        for event, instance in self._clock.instance_of.items():
            known = last_member.setdefault(instance, event)
            if self._done[event] > self._done[known]:
                last_member[instance] = event
        ends = self._clock.end
        return {
            update: last_member[max(instances, key=lambda instance: ends[instance] or 0.0)]
            for update, instances in self._awaited.items()
            if instances
        }
