"""In which order does each rank of a schedule run, and how long does that take? Without any closed form.

Written from the definitions of the schedules, so that it shares nothing with `tuner.schedules`.
"""

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Op:
    """A forward or a backward of one micro-batch at one stage; `half` numbers the halves of a backward."""

    kind: Literal["F", "B"]
    pipe: int
    stage: int
    micro_batch: int
    half: int | None = None

    def needs(self, depth: int) -> "Op | None":
        """The operation whose result this one consumes."""
        if self.kind == "F":
            return Op("F", self.pipe, self.stage - 1, self.micro_batch) if self.stage else None
        if self.stage == depth - 1:
            return Op("F", self.pipe, self.stage, self.micro_batch)
        return Op("B", self.pipe, self.stage + 1, self.micro_batch, self.half)


Orders = list[list[Op]]


@dataclass(frozen=True)
class Run:
    """What running the orders gave."""

    makespan: float
    peak_live: list[float]
    """Most micro-batches alive at once on each rank."""
    peak_live_at: dict[tuple[int, int], float]
    """The same at each (pipe, stage)."""


def simulate(orders: Orders, *, forward_s: float, backward_s: float) -> Run:
    """Run every rank strictly in order; messages take no time."""
    depth = len(orders)
    waiting = [deque(order) for order in orders]
    clock, done = [0.0] * depth, dict[Op, float]()
    live, peak = [0.0] * depth, [0.0] * depth
    live_at, peak_at = defaultdict[tuple[int, int], float](float), defaultdict[tuple[int, int], float](float)
    while any(waiting):
        before = len(done)
        for rank, queue in enumerate(waiting):
            while queue and ((needed := queue[0].needs(depth)) is None or needed in done):
                op = queue.popleft()
                share = 1.0 if op.half is None else 0.5
                lasts = forward_s if op.kind == "F" else backward_s * share
                clock[rank] = max(clock[rank], done[needed] if needed else 0.0) + lasts
                done[op] = clock[rank]
                step, place = share if op.kind == "F" else -share, (op.pipe, op.stage)
                live[rank] += step
                live_at[place] += step
                peak[rank] = max(peak[rank], live[rank])
                peak_at[place] = max(peak_at[place], live_at[place])
        assert len(done) > before, "the orders deadlock"
    return Run(max(clock), peak, dict(peak_at))


def gpipe(depth: int, micro_batches: int) -> Orders:
    """All forwards, then all backwards."""
    return [
        [Op(kind, 0, stage, m) for kind in ("F", "B") for m in range(micro_batches)] for stage in range(depth)
    ]


def dapple(depth: int, micro_batches: int) -> Orders:
    """min(N, D − s) forwards to warm up, then a backward and a forward in turn, then the rest."""
    orders = []
    for stage in range(depth):
        warm = min(micro_batches, depth - stage)
        order = [Op("F", 0, stage, m) for m in range(warm)]
        for m in range(micro_batches):
            order.append(Op("B", 0, stage, m))
            if warm + m < micro_batches:
                order.append(Op("F", 0, stage, warm + m))
        orders.append(order)
    return orders


def gems(depth: int, micro_batches: int) -> Orders:
    """A forward and its backward at once, down and up pipe in turn."""
    orders: Orders = [[] for _ in range(depth)]
    for rank, order in enumerate(orders):
        for m in range(micro_batches):
            pipe = m % 2
            stage = depth - 1 - rank if pipe else rank
            order += [Op("F", pipe, stage, m), Op("B", pipe, stage, m)]
    return orders


def chimera(depth: int, micro_batches: int, *, pairs: int = 1) -> Orders:
    """Direct concatenation by slots: F of a pipe's k-th micro-batch at s + 2k, its B at 2D − 1 − s + 2k.

    Unit u of at most D micro-batches is later by 2D·u; its remainder goes to down 0, up 0, down 1, ...
    """
    pipes = 2 * pairs
    slotted: list[list[tuple[int, Op]]] = [[] for _ in range(depth)]
    counted = 0
    for unit in range(-(-micro_batches // depth)):
        count = min(depth, micro_batches - unit * depth)
        for pipe in range(pipes):
            for k in range(count // pipes + (pipe < count % pipes)):
                for stage in range(depth):
                    slots = slotted[_rank(pipe, stage, depth=depth, pairs=pairs)]
                    late = 2 * k + 2 * depth * unit
                    slots.append((stage + late, Op("F", pipe, stage, counted)))
                    slots.append((2 * depth - 1 - stage + late, Op("B", pipe, stage, counted)))
                counted += 1
    return [[op for _, op in sorted(slots, key=lambda slot: slot[0])] for slots in slotted]


def _rank(pipe: int, stage: int, *, depth: int, pairs: int) -> int:
    """Down pipe i starts on rank i·D/f and wraps; up pipe i is its reverse."""
    down = depth - 1 - stage if pipe % 2 else stage
    return (down + pipe // 2 * (depth // pairs)) % depth


def chimera_pairs(depth: int, units: int, *, halving: bool) -> Orders:
    """Forward doubling, or backward halving, as counted loops over units of D pairs."""
    return [_Rank(depth, rank, units=units, halving=halving).order() for rank in range(depth)]


class _Rank:
    """One rank of `chimera_pairs`; the pipe that it starts with is `main`."""

    def __init__(self, depth: int, rank: int, *, units: int, halving: bool) -> None:
        half = depth // 2
        self._half, self._units, self._halving = half, units, halving
        self._stages = (rank, depth - 1 - rank)
        self._main = 0 if rank < half else 1
        self._lead = half - rank if rank < half else rank - half + 1
        pairs = [deque(range(pipe * units * half, (pipe + 1) * units * half)) for pipe in (0, 1)]
        self._forwards = pairs
        self._backwards = [deque((pair, part) for pair in queue for part in (0, 1)) for queue in pairs]
        self._order: list[Op] = []

    def order(self) -> list[Op]:
        main, other, lead = self._main, 1 - self._main, self._lead
        follow = self._half - lead
        for unit in range(self._units):
            for _ in range(lead):
                if unit:
                    self._backward(main)
                self._forward(main)
            for _ in range(follow):
                self._forward(other)
                self._forward(main)
            for _ in range(lead):
                self._forward(other)
                self._backward(other)
            for _ in range(follow + self._half):
                self._backward(main)
                self._backward(other)
        for _ in range(lead):
            self._backward(main)
        return self._order

    def _forward(self, pipe: int) -> None:
        pair = self._forwards[pipe].popleft()
        if self._halving:
            self._order.append(Op("F", pipe, self._stages[pipe], pair))
        else:
            self._order += [Op("F", pipe, self._stages[pipe], 2 * pair + part) for part in (0, 1)]

    def _backward(self, pipe: int) -> None:
        pair, part = self._backwards[pipe].popleft()
        if self._halving:
            self._order.append(Op("B", pipe, self._stages[pipe], pair, part))
        else:
            self._order.append(Op("B", pipe, self._stages[pipe], 2 * pair + part))
