"""In which order does each rank list its transfers, where these run one after the other in that order (NCCL)?

All list them in the order in which a run with equal stages and free messages makes the values, the lower
rank's first between equals: then the first that is not over can always go on. SENDs already stand in that
order; a RECV moves behind the SENDs that come before it in that order, which is never behind the operation
that waits for it, and no further back than the RECVs that come after it.
"""

from bisect import bisect_left

from tuner.operation_costs import OperationCosts
from tuner.schedules.messages import Message, message_of
from tuner.schedules.program import RECEIVES, SENDS, Program, Step, pack
from tuner.simulation import simulate

Moment = tuple[float, int, int]
"""When a message is made; its sender, and the place of its SEND there, decide between equals."""


def in_common_order(program: Program) -> Program:
    """A lowered program for a transport that completes the transfers of a rank in program order."""
    made = _moments(program)
    return program.lowered_to(pack([_reordered(program, rank, made) for rank in range(program.depth)]))


def _moments(program: Program) -> dict[Message, Moment]:
    timeline = simulate(program, OperationCosts.uniform(program))
    transfers = timeline.compiled.transfers
    times = timeline.done_s[transfers.sent_by].tolist()
    moments = zip(times, transfers.source.tolist(), transfers.row.tolist(), strict=True)
    return {timeline.compiled.message(number): moment for number, moment in enumerate(moments)}


def _reordered(program: Program, rank: int, made: dict[Message, Moment]) -> list[Step]:
    """One rank's steps; a RECV stands before step j, at key (j, 0, its moment), a step at (j, 1)."""
    steps = program.ranks[rank]
    placed: list[tuple[tuple[object, ...], Step]] = []
    sends: list[tuple[Moment, int]] = []
    receives: list[tuple[Moment, int, Step]] = []
    for position, step in enumerate(steps):
        if step[0].kind in RECEIVES:
            receives.append((made[message_of(step[0])], position, step))
            continue
        placed.append(((position, 1), step))
        if step[0].kind in SENDS:
            sends.append((made[message_of(step[0])], position))
    at = len(steps)
    for moment, position, step in sorted(receives, reverse=True):
        before, after = _between(sends, moment, len(steps))
        at = min(max(position, before), after, at)
        placed.append(((at, 0, moment), step))
    return [step for _, step in sorted(placed)]


def _between(sends: list[tuple[Moment, int]], moment: Moment, end: int) -> tuple[int, int]:
    """The steps between which a RECV stands: behind the sends made before it, ahead of later ones."""
    number = bisect_left(sends, (moment, 0))
    before = sends[number - 1][1] + 1 if number else 0
    after = sends[number][1] if number < len(sends) else end
    return before, after
