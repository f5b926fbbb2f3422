"""When does each gradient collective run, given when its members arrive?"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from tuner.schedules.compiled import Compiled
from tuner.schedules.program import Integers, Kind


class CollectiveClock:
    """The collectives of a program: an instance runs when all its members have arrived and its turn has come.

    On every rank the instances have their turns in program order; at most `lanes` of a rank run at once.
    """

    def __init__(self, compiled: Compiled, sync_s: Sequence[float], *, lanes: int | None) -> None:
        columns, first = compiled.program.columns, compiled.first
        events = np.flatnonzero(columns.kind[first] == Kind.SYNC)
        rows = first[events]
        instances = _number(np.stack([getattr(columns, name)[rows] for name in _IDENTITY]))
        self.instance_of = dict(zip(events.tolist(), instances.tolist(), strict=True))
        count = int(instances.max()) + 1 if len(instances) else 0
        self._missing = np.bincount(instances, minlength=count).tolist()
        self._arrived = [0.0] * count
        self.length = [0.0] * count
        """Seconds of each instance."""
        self.start: list[float | None] = [None] * count
        self.end: list[float | None] = [None] * count
        self.ranks: list[list[int]] = [[] for _ in range(count)]
        """Members of each instance."""
        depth = compiled.program.depth
        self.turns: list[list[int]] = [[] for _ in range(depth)]
        """Instances of each rank."""
        self._next = [0] * depth
        self._lanes = [[0.0] * lanes for _ in range(depth)] if lanes else None
        shares = columns.parts[rows].tolist()
        for instance, rank, group, parts in zip(
            instances.tolist(),
            compiled.rank[events].tolist(),
            columns.group[rows].tolist(),
            shares,
            strict=True,
        ):
            self.ranks[instance].append(rank)
            self.turns[rank].append(instance)
            self.length[instance] = sync_s[group] / parts

    def arrive(self, instance: int, now: float) -> list[int]:
        """A member arrives at `now`; returns the instances whose times are known thereby."""
        self._missing[instance] -= 1
        self._arrived[instance] = max(self._arrived[instance], now)
        settled: list[int] = []
        waiting = [instance]
        while waiting:
            candidate = waiting.pop()
            if self.end[candidate] is None and not self._missing[candidate] and self._has_turn(candidate):
                self._run(candidate)
                settled.append(candidate)
                waiting.extend(self._following(candidate))
        return settled

    def _has_turn(self, instance: int) -> bool:
        return all(self.turns[rank][self._next[rank]] == instance for rank in self.ranks[instance])

    def _run(self, instance: int) -> None:
        start = self._arrived[instance]
        if self._lanes is not None:
            start = max(start, *(min(self._lanes[rank]) for rank in self.ranks[instance]))
        self.start[instance] = start
        self.end[instance] = start + self.length[instance]
        for rank in self.ranks[instance]:
            self._next[rank] += 1
            if self._lanes is not None:
                lanes = self._lanes[rank]
                lanes[lanes.index(min(lanes))] = start + self.length[instance]

    def _following(self, instance: int) -> list[int]:
        turns = [(self.turns[rank], self._next[rank]) for rank in self.ranks[instance]]
        return [queue[position] for queue, position in turns if position < len(queue)]


_IDENTITY = ("iteration", "micro_batch", "group", "part", "collective")
"""The members of one collective agree in these."""


def _number(identities: Integers) -> Integers:
    """Number equal columns equally."""
    if not identities.shape[1]:
        return np.zeros(0, dtype=np.int64)
    _, numbers = np.unique(identities, axis=1, return_inverse=True)
    return np.asarray(numbers, dtype=np.int64).reshape(-1)


def awaited(compiled: Compiled, clock: CollectiveClock) -> dict[int, list[int]]:
    """The instances that UPDATEs wait for: those of the rank's round that stand before its first UPDATE.

    The later UPDATEs of a round come after the first and need not wait again; the all-gather of a sharded
    optimizer comes after the updates, and nothing in the program waits for it.
    """
    program, columns, first = compiled.program, compiled.program.columns, compiled.first
    kind = columns.kind[first]
    events = np.flatnonzero((kind == Kind.SYNC) | (kind == Kind.UPDATE))
    rows = first[events]
    rounds = zip(
        compiled.rank[events].tolist(),
        program.jobs[columns.pipe[rows]].tolist(),
        columns.iteration[rows].tolist(),
        columns.micro_batch[rows].tolist(),
        strict=True,
    )
    waits: dict[int, list[int]] = {}
    before: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for event, this in zip(events.tolist(), rounds, strict=True):
        instance = clock.instance_of.get(event)
        if instance is not None:
            before[this].append(instance)
        else:
            waits[event] = before.pop(this, [])
    return waits


def held_by(clock: CollectiveClock, waits: dict[int, list[int]], done_s: Sequence[float]) -> dict[int, int]:
    """For each UPDATE the SYNC of the last member of the collective that ended last before it."""
    last_member: dict[int, int] = {}
    for event, instance in clock.instance_of.items():
        known = last_member.setdefault(instance, event)
        if done_s[event] > done_s[known]:
            last_member[instance] = event
    ends = clock.end
    return {
        update: last_member[max(instances, key=lambda instance: ends[instance] or 0.0)]
        for update, instances in waits.items()
        if instances
    }
