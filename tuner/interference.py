"""When does every step run if collectives and the computation of their ranks slow each other down?

They share cores and memory bandwidth. A rank computes at 1/(1 + slow_down) of its speed as long as at least
one collective runs there, and a collective goes on at sync_s / sync_beside_s of its speed as long as at least
one of its ranks computes; messages keep theirs. How long a step takes then depends on when others start, so
the events of all ranks are taken in the order of time. Without a slow-down every time is that of
`tuner.simulation`.
"""

from collections import defaultdict, deque
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from tuner.operation_costs import OperationCosts, durations, transfer_times
from tuner.schedules.collectives import CollectiveClock, awaited, held_by
from tuner.schedules.compiled import NONE
from tuner.timeline import Timeline

_FINISH, _ARRIVE, _REDUCED = range(3)
"""A rank finishes a step, a message arrives, a collective ends."""


def slowed(timeline: Timeline, costs: OperationCosts) -> Timeline:
    """The timeline of the same program when collectives and computation slow each other down."""
    return _Run(timeline, costs).timeline()


@dataclass
class _Course:
    """How far something has come that goes at one of two speeds."""

    stretch: float
    """Time at the lower speed over that at the higher one."""
    left_s: float = 0.0
    """At full speed, at the time `since_s`."""
    since_s: float = 0.0
    beside: int = 0
    """How many run that slow it down."""
    forecast: int = 0
    """Which of its forecasts of the end holds: each change of speed makes a new one."""

    def begin(self, length_s: float, now: float) -> None:
        """It starts, with so much to do at full speed."""
        self.left_s, self.since_s = length_s, now

    def foresee(self, now: float) -> float:
        """When it will end, if what runs beside it stays as it is; forecasts before do not hold any more."""
        self.forecast += 1
        return now + (self.left_s * self.stretch if self.beside else self.left_s)

    def change(self, change: int, now: float) -> bool:
        """So many more, or fewer, run beside it; whether that changes its speed."""
        slow_before, self.beside = self.beside > 0, self.beside + change
        if slow_before == (self.beside > 0) or self.stretch == 1:
            return False
        passed = now - self.since_s
        self.left_s = max(0.0, self.left_s - (passed / self.stretch if slow_before else passed))
        self.since_s = now
        return True


class _Run:
    """The events of all ranks in the order of time."""

    def __init__(self, timeline: Timeline, costs: OperationCosts) -> None:
        self._compiled = compiled = timeline.compiled
        depth, transfers = compiled.program.depth, compiled.transfers
        self._duration = durations(compiled, costs).tolist()
        self._delay, self._occupied = (column.tolist() for column in transfer_times(compiled, costs))
        self._clock = CollectiveClock(compiled, costs.sync_s.tolist(), lanes=costs.lanes)
        self._awaited = awaited(compiled, self._clock)
        self._lanes = costs.lanes
        self._missing = [len(members) for members in self._clock.ranks]
        self._open = [list(turns) for turns in self._clock.turns]
        """Collectives of each rank that have not ended, in program order."""
        self._sent_by, self._posted_by = transfers.sent_by.tolist(), transfers.posted_by.tolist()
        self._target = transfers.target.tolist()
        self._route = (transfers.source * depth + transfers.target).tolist()
        self._inputs = [[t for t in pair if t != NONE] for pair in np.stack(compiled.inputs, 1).tolist()]
        self._queues: dict[int, deque[int]] = defaultdict(deque)
        """Messages of each link that have not left, in the order in which they are used."""
        self._starters: dict[int, list[int]] = defaultdict(list)
        """Messages that each event sends or posts."""
        self._start = [0.0] * len(compiled.rank)
        self._done = [np.inf] * len(compiled.rank) + [0.0]
        """When each rank goes on after each event; the last entry, at NONE, is the start of the program."""
        self._left = [0.0] * len(self._delay)
        self._arrived = [False] * len(self._delay)
        self._free = [0.0] * depth**2
        self._at, self._last = compiled.begins[:-1], compiled.begins[1:]
        self._event = [NONE] * depth
        """What each rank computes; NONE while it waits."""
        self._work = [_Course(1 + costs.slow_down) for _ in range(depth)]
        self._sums = [_Course(stretch) for stretch in self._stretches(costs)]
        """The collectives."""
        self._summing: list[list[int]] = [[] for _ in range(depth)]
        """Those that run on each rank."""
        self._heap: list[tuple[float, int, int, int]] = []
        """(time, what happens, to which rank, message or collective, forecast)."""

    def timeline(self) -> Timeline:
        """Run everything."""
        self._list_messages()
        for rank in range(len(self._work)):
            self._proceed(rank, 0.0)
        while self._heap:
            now, what, subject, forecast = heappop(self._heap)
            if what == _ARRIVE:
                self._arrived[subject] = True
                self._proceed(self._target[subject], now)
            elif what == _FINISH and self._work[subject].forecast == forecast:
                self._finish(subject, now)
            elif what == _REDUCED and self._sums[subject].forecast == forecast:
                self._end_collective(subject, now)
        return self._result()

    def _stretches(self, costs: OperationCosts) -> list[float]:
        """Of each collective: the time beside computation over the time alone."""
        if costs.sync_beside_s is None:
            return [1.0] * len(self._clock.length)
        beside = CollectiveClock(self._compiled, costs.sync_beside_s.tolist(), lanes=costs.lanes).length
        return [
            max(1.0, slow_s / s) if s else 1.0 for s, slow_s in zip(self._clock.length, beside, strict=True)
        ]

    def _list_messages(self) -> None:
        for inputs in self._inputs:
            for transfer in inputs:
                self._queues[self._route[transfer]].append(transfer)
        for events in (self._sent_by, self._posted_by):
            for transfer, event in enumerate(events):
                self._starters[event].append(transfer)
        for transfer in self._starters.pop(NONE, []):
            self._leave(self._route[transfer])

    def _leave(self, route: int) -> None:
        """Let the messages of a link go that are sent and posted, if it is their turn."""
        queue, done = self._queues[route], self._done
        while queue:
            transfer = queue[0]
            sent, posted = done[self._sent_by[transfer]], done[self._posted_by[transfer]]
            leaves = max(sent, posted, self._free[route])
            if leaves == np.inf:
                return
            queue.popleft()
            self._left[transfer], self._free[route] = leaves, leaves + self._occupied[transfer]
            heappush(self._heap, (leaves + self._delay[transfer], _ARRIVE, transfer, 0))

    def _proceed(self, rank: int, now: float) -> None:
        """Start the next step of an idle rank if nothing is missing; collectives are started on the way."""
        while self._event[rank] == NONE and self._at[rank] < self._last[rank]:
            event = self._at[rank]
            if event in self._clock.instance_of and not self._duration[event]:
                self._at[rank] += 1
                self._complete(event, now)
                self._join(self._clock.instance_of[event], now)
            elif self._is_ready(event):
                self._start[event], self._event[rank] = now, event
                self._work[rank].begin(self._duration[event], now)
                self._foresee(rank, now)
                self._change_computing(rank, 1, now)
            else:
                return

    def _is_ready(self, event: int) -> bool:
        for transfer in self._inputs[event]:
            if not self._arrived[transfer]:
                return False
        return all(self._clock.end[instance] is not None for instance in self._awaited.get(event, ()))

    def _foresee(self, rank: int, now: float) -> None:
        work = self._work[rank]
        heappush(self._heap, (work.foresee(now), _FINISH, rank, work.forecast))

    def _finish(self, rank: int, now: float) -> None:
        event, self._event[rank] = self._event[rank], NONE
        self._change_computing(rank, -1, now)
        self._at[rank] += 1
        self._complete(event, now)
        if event in self._clock.instance_of:  # its gradients are compressed
            self._join(self._clock.instance_of[event], now)
        self._proceed(rank, now)

    def _complete(self, event: int, now: float) -> None:
        self._done[event] = now
        for transfer in self._starters.get(event, ()):
            self._leave(self._route[transfer])

    def _join(self, instance: int, now: float) -> None:
        self._missing[instance] -= 1
        self._start_if_due(instance, now)

    def _start_if_due(self, instance: int, now: float) -> None:
        """A collective starts when all have joined, and on all its ranks a lane is free for it."""
        members, lanes = self._clock.ranks[instance], self._lanes
        waits = self._missing[instance] or self._clock.start[instance] is not None
        if waits or (lanes and any(instance not in self._open[rank][:lanes] for rank in members)):
            return
        self._clock.start[instance] = now
        course = self._sums[instance]
        course.begin(self._clock.length[instance], now)
        course.beside = sum(self._event[rank] != NONE for rank in members)
        self._foresee_collective(instance, now)
        for rank in members:
            self._summing[rank].append(instance)
            self._change_collectives(rank, 1, now)

    def _foresee_collective(self, instance: int, now: float) -> None:
        course = self._sums[instance]
        heappush(self._heap, (course.foresee(now), _REDUCED, instance, course.forecast))

    def _end_collective(self, instance: int, now: float) -> None:
        self._clock.end[instance] = now
        members = self._clock.ranks[instance]
        for rank in members:
            self._open[rank].remove(instance)
            self._summing[rank].remove(instance)
            self._change_collectives(rank, -1, now)
        for rank in members:
            for following in self._open[rank][: self._lanes or 0]:
                self._start_if_due(following, now)
            self._proceed(rank, now)

    def _change_collectives(self, rank: int, change: int, now: float) -> None:
        """One more, or one fewer, runs on the rank."""
        if self._work[rank].change(change, now) and self._event[rank] != NONE:
            self._foresee(rank, now)

    def _change_computing(self, rank: int, change: int, now: float) -> None:
        """The rank begins to compute, or ends."""
        for instance in self._summing[rank]:
            if self._sums[instance].change(change, now):
                self._foresee_collective(instance, now)

    def _result(self) -> Timeline:
        start, done = np.array(self._start), np.array(self._done)
        end = done[:-1].copy()
        for event, instance in self._clock.instance_of.items():
            start[event], end[event] = self._clock.start[instance], self._clock.end[instance]
        left = np.array(self._left)
        held = held_by(self._clock, self._awaited, self._done)
        return Timeline(self._compiled, start, end, done, left, left + self._delay, held)
