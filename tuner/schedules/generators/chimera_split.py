"""Chimera whose weight gradients are operations of their own and fill its bubbles.

Each rank keeps Chimera's direct order of forwards and input gradients, and runs the next of them when its
input is there and fewer than `pending` weight gradients wait; else it runs the oldest that waits. With equal
times of F, I and W and D | N the makespan is 3N + max(D − 1 − c, D/2 − 1), c = `pending`.
"""

from collections import deque
from heapq import heappop, heappush
from math import inf

from tuner.schedules.generators import chimera
from tuner.schedules.generators.recipe import Ranks, Recipe, StageTimes, Variant
from tuner.schedules.program import Kind, Op

Value = tuple[Kind, int, int, int]
"""The input of an operation: its kind, pipe, stage and micro-batch."""


def steps(variant: Variant) -> Ranks:
    """The order in which a run with the variant's times does things."""
    ones = [1.0] * variant.depth
    return _Run(variant, variant.times or StageTimes(ones, ones, ones)).ranks()


class _Run:
    """Simulates the ranks; each chooses what to do whenever it is free."""

    def __init__(self, variant: Variant, times: StageTimes) -> None:
        self._limit, self._hop = variant.pending, times.hop
        self._times = {Kind.F: times.forward, Kind.I: times.input_gradient, Kind.W: times.weight_gradient}
        self._order = [deque(row) for row in chimera.direct_order(variant, backward=Kind.I)]
        self._pending: list[deque[Op]] = [deque() for _ in range(variant.depth)]
        self._ranks: Ranks = [[] for _ in range(variant.depth)]
        self._free = [(0.0, rank) for rank in range(variant.depth)]
        """(when, rank) that will be free, the earliest first."""
        self._arrival: dict[Value, float] = {}
        self._idle: dict[Value, int] = {}
        """Ranks that wait for an input of which nobody knows when it comes."""

    def ranks(self) -> Ranks:
        """What each rank did."""
        while self._free:
            now, rank = heappop(self._free)
            order, pending = self._order[rank], self._pending[rank]
            arrival = self._arrival_of(order[0]) if order else inf
            if arrival <= now and len(pending) < self._limit:
                self._do(order.popleft(), rank, now)
            elif pending:
                self._do(pending.popleft(), rank, now)
            elif arrival < inf:
                heappush(self._free, (arrival, rank))
            elif order:
                self._idle[order[0][:4]] = rank
        return self._ranks

    def _arrival_of(self, op: Op) -> float:
        first = op.stage == 0 if op.kind == Kind.F else op.stage == len(self._ranks) - 1
        return 0.0 if first else self._arrival.get(op[:4], inf)

    def _do(self, op: Op, rank: int, now: float) -> None:
        self._ranks[rank].append((op,))
        kind, pipe, stage, m = op[:4]
        end = now + self._times[kind][stage]
        heappush(self._free, (end, rank))
        if kind == Kind.I:
            self._pending[rank].append(Op(Kind.W, pipe, stage, m))
        if kind != Kind.W:
            self._deliver((kind, pipe, stage + 1 if kind == Kind.F else stage - 1, m), end + self._hop)

    def _deliver(self, value: Value, arrival: float) -> None:
        self._arrival[value] = arrival
        rank = self._idle.pop(value, None)
        if rank is not None:
            heappush(self._free, (arrival, rank))


def illegal(variant: Variant) -> str | None:
    """As Chimera; times must be given for every stage, and pass."""
    times = variant.times
    if times is not None:
        rows = (times.forward, times.input_gradient, times.weight_gradient)
        finite = all(len(row) == variant.depth and all(0 <= time < inf for time in row) for row in rows)
        if not (finite and all(time > 0 for time in times.forward) and 0 <= times.hop < inf):
            return (
                "times need a number of at least 0 for every stage and kind, one above 0 for every forward, "
                "and a hop of at least 0"
            )
    return chimera.illegal(variant)


RECIPE = Recipe(
    "chimera_split",
    chimera.placement,
    steps,
    illegal=illegal,
    replicas=2,
    splits_backward=True,
    options=frozenset({"pending", "times"}),
)
