"""Which costs add up to the time at which an event ends? The chain that decides it, as a sum of costs.

Every time of a simulation without slow-downs is the end of another event plus a cost, so the time at the end
of the chain is the sum of its costs. Under other costs the same sum is a lower bound of the simulated time,
exact while the chain stays the one that decides: the makespan is the maximum over all chains, each linear in
the costs, so the sum of the costs' derivatives along the chain is the derivative of the makespan.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from tuner.operation_costs import OperationCosts, count_groups, durations, transfer_times
from tuner.schedules.collectives import CollectiveClock
from tuner.schedules.compiled import NONE, Compiled
from tuner.schedules.program import Integers
from tuner.timeline import Timeline


@dataclass(frozen=True)
class CriticalCosts:
    """The costs of one chain."""

    compiled: Compiled
    events: Integers
    """Events that compute."""
    messages: Integers
    """Messages that are waited for until they arrive."""
    queued: Integers
    """Messages that are waited for until they free their link."""
    collectives: Integers
    """Events of one member of every collective that is waited for."""

    def total_s(self, costs: OperationCosts) -> float:
        """The sum along the chain, linear in the costs."""
        columns, first = self.compiled.program.columns, self.compiled.first
        computing = durations(self.compiled, costs, self.events).sum()
        arriving = transfer_times(self.compiled, costs, self.messages)[0].sum()
        leaving = transfer_times(self.compiled, costs, self.queued)[1].sum()
        rows = first[self.collectives]
        reducing = (costs.sync_s[columns.group[rows]] / columns.parts[rows]).sum()
        return float(computing + arriving + leaving + reducing)


def critical_costs(timeline: Timeline, event: int) -> CriticalCosts:
    """The chain that ends with `event` of a timeline simulated without slow-downs."""
    return _Walk(timeline).back_from(event)


def last_event(timeline: Timeline, iteration: int | None = None) -> int:
    """The event that computes and ends last, of one iteration or of all."""
    among = timeline.computes
    if iteration is not None:
        columns = timeline.compiled.program.columns
        among = among & (columns.iteration[timeline.compiled.first] == iteration)
    return int(np.where(among, timeline.end_s, -1.0).argmax())


class _Walk:
    """Goes from event to event, back in time."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._compiled = compiled = timeline.compiled
        clock = CollectiveClock(compiled, np.zeros(count_groups(compiled.program)).tolist(), lanes=None)
        self._instance = clock.instance_of
        self._turns, self._ranks = clock.turns, clock.ranks
        self._last_member: dict[int, int] = {}
        for event, instance in clock.instance_of.items():
            known = self._last_member.setdefault(instance, event)
            if timeline.done_s[event] > timeline.done_s[known]:
                self._last_member[instance] = event
        self._before = _before_on_link(timeline)
        self._found: dict[str, list[int]] = defaultdict(list)

    def back_from(self, event: int) -> CriticalCosts:
        """All costs of the chain that ends with `event`."""
        while event != NONE:
            if self._timeline.computes[event]:
                self._found["events"].append(event)
            event = self._binding(event)
        return CriticalCosts(
            self._compiled,
            **{
                name: np.array(self._found[name], dtype=np.int64)
                for name in ("events", "messages", "queued", "collectives")
            },
        )

    def _binding(self, event: int) -> int:
        """The event whose end, with the costs that are noted, let this one start."""
        line, compiled = self._timeline, self._compiled
        before = event - 1 if event > compiled.begins[int(compiled.rank[event])] else NONE
        start_s = line.start_s[event]
        if not line.computes[event] or line.done_s[before] >= start_s:
            return before
        if event in line.held_by:
            return self._collective(line.held_by[event])
        for inputs in compiled.inputs:
            transfer = int(inputs[event])
            if transfer != NONE and line.arrival_s[transfer] >= start_s:
                return self._message(transfer)
        return before

    def _message(self, transfer: int) -> int:
        """Back to the event after which a message could leave, over those that kept its link."""
        line, transfers = self._timeline, self._compiled.transfers
        self._found["messages"].append(transfer)
        while True:
            sent, posted = int(transfers.sent_by[transfer]), int(transfers.posted_by[transfer])
            free = max(line.done_s[sent], line.done_s[posted]) >= line.left_s[transfer]
            if free or self._before[transfer] == NONE:
                return sent if line.done_s[sent] >= line.done_s[posted] else posted
            transfer = int(self._before[transfer])
            self._found["queued"].append(transfer)

    def _collective(self, event: int) -> int:
        """Back to the member that came last, over the collectives that were waited for before."""
        line = self._timeline
        while True:
            self._found["collectives"].append(event)
            instance = self._instance[event]
            member = self._last_member[instance]
            if line.done_s[member] >= line.start_s[event]:
                return member
            earlier = self._ended_at(line.start_s[event], instance)
            if earlier is None:
                return member
            event = self._last_member[earlier]

    def _ended_at(self, time_s: float, instance: int) -> int | None:
        """The collective of the same ranks whose end let this one start."""
        ends = {
            other: self._timeline.end_s[self._last_member[other]]
            for rank in self._ranks[instance]
            for other in self._turns[rank]
            if other != instance
        }
        return next((other for other, end_s in ends.items() if end_s == time_s), None)


def _before_on_link(timeline: Timeline) -> Integers:
    """For every message the one that left before it on the same link, or NONE."""
    transfers, depth = timeline.compiled.transfers, timeline.compiled.program.depth
    route = transfers.source * depth + transfers.target
    order = np.lexsort((np.arange(len(route)), timeline.left_s, route))
    before = np.full(len(route), NONE, dtype=np.int64)
    follows = route[order[1:]] == route[order[:-1]]
    before[order[1:][follows]] = order[:-1][follows]
    return before
