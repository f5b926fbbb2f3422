"""How long does a program take, told independently of the simulator? Compute only, communication free."""

from fractions import Fraction

from tuner.schedules.program import Kind, Op, Program

Times = dict[Kind, Fraction]


def unit_times(*, forward: int = 1, backward: int = 2, weight_gradient: int = 1, chunks: int = 1) -> Times:
    """Exact times of one stage; chunks share those of a rank."""
    whole = {Kind.F: forward, Kind.B: backward, Kind.I: backward - weight_gradient, Kind.W: weight_gradient}
    return {kind: Fraction(time, chunks) for kind, time in whole.items()}


def spans(program: Program, times: Times) -> list[tuple[Fraction, Fraction]]:
    """(start of the first, end of the last step) of every rank; a rank runs its steps strictly in order."""
    ends: dict[tuple[object, ...], Fraction] = {}
    at = [0] * program.depth
    clock = [Fraction(0)] * program.depth
    first: dict[int, Fraction] = {}
    moved = True
    while moved:
        moved = False
        for rank, steps in enumerate(program.ranks):
            while at[rank] < len(steps):
                step = steps[at[rank]]
                inputs = [need for op in step for need in _needs(op, program.stages)]
                if any(need not in ends for need in inputs):
                    break
                start = max([clock[rank], *(ends[need] for need in inputs)])
                first.setdefault(rank, start)
                clock[rank] = start + sum(times[op.kind] / op.parts for op in step)
                ends.update({key: clock[rank] for op in step for key in _makes(op)})
                at[rank] += 1
                moved = True
    blocked = [str(steps[at[rank]][0]) for rank, steps in enumerate(program.ranks) if at[rank] < len(steps)]
    assert not blocked, f"blocked at {blocked}"
    return [(first[rank], clock[rank]) for rank in range(program.depth)]


def makespan(program: Program, times: Times) -> Fraction:
    """End of the last step of all."""
    return max(end for _, end in spans(program, times))


def _makes(op: Op) -> list[tuple[object, ...]]:
    direction = "forward" if op.kind == Kind.F else "weight" if op.kind == Kind.W else "backward"
    return [(direction, op.pipe, op.stage, op.iteration, op.micro_batch, op.part)]


def _needs(op: Op, stages: int) -> list[tuple[object, ...]]:
    same = (op.pipe, op.stage, op.iteration, op.micro_batch)
    if op.kind == Kind.F:
        return [("forward", op.pipe, op.stage - 1, *same[2:], 0)] if op.stage else []
    if op.kind == Kind.W:
        return [("backward", *same, op.part)]
    behind: list[tuple[object, ...]] = [("forward", *same, 0)]
    if op.stage < stages - 1:
        behind.append(("backward", op.pipe, op.stage + 1, *same[2:], op.part))
    return behind


def peak_live(program: Program) -> list[float]:
    """Most micro-batches alive on each rank: forwards issued minus backwards finished.

    A stage of a rank with several chunks counts 1/chunks; a split backward ends with its weight gradient.
    """
    peaks = []
    for steps in program.ranks:
        alive, peak = Fraction(0), Fraction(0)
        for step in steps:
            for op in step:
                change = {Kind.F: 1, Kind.I: 0}.get(op.kind, -1)
                alive += Fraction(change, op.parts * program.chunks)
                peak = max(peak, alive)
        assert alive == 0
        peaks.append(float(peak))
    return peaks
