"""When is a message that was sent known to have been received, without asking?

A rank that gets message X from a peer knows that the peer's operations before the SEND of X are done. If one
of them consumed message M, then M has arrived: waiting for its send returns at once, and its tensor can go.
Without this, every message of an iteration would be kept until the end.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate

from tuner.schedules.messages import Message, message_of, needed_by
from tuner.schedules.program import SENDS, Op, Program


def release_points(program: Program, rank: int) -> dict[Message, tuple[Message, ...]]:
    """For each message that a rank of a lowered program waits for: the sends that are over once it is there.

    Each send stands behind the first such message. One that is missing has none: nothing comes back from the
    peer after it consumed it, so it must be waited for at the end.
    """
    consumed_at, sent_at = _peers_positions(program, rank)
    awaited: dict[int, list[Message]] = defaultdict(list)
    for _, op in _operations(program, rank):
        if (message := needed_by(op, program)) is not None:
            awaited[message.source(program)].append(message)
    latest = {
        peer: list(accumulate((sent_at[message] for message in messages), max))
        for peer, messages in awaited.items()
    }
    points: dict[Message, list[Message]] = defaultdict(list)
    for _, op in _operations(program, rank):
        if op.kind not in SENDS:
            continue
        message = message_of(op)
        peer = message.target(program)
        # The peer's SEND must stand behind the step that consumes; X and all before it are there by then.
        number = bisect_right(latest.get(peer, []), consumed_at[message])
        if number < len(awaited[peer]):
            points[awaited[peer][number]].append(message)
    return {point: tuple(messages) for point, messages in points.items()}


def _peers_positions(program: Program, rank: int) -> tuple[dict[Message, int], dict[Message, int]]:
    """The steps at which others consume what the rank sends, and at which they send what it awaits."""
    consumed_at: dict[Message, int] = {}
    sent_at: dict[Message, int] = {}
    for peer in range(program.depth):
        if peer == rank:
            continue
        for step, op in _operations(program, peer):
            if op.kind in SENDS:
                if (sent := message_of(op)).target(program) == rank:
                    sent_at[sent] = step
            elif (taken := needed_by(op, program)) is not None and taken.source(program) == rank:
                consumed_at[taken] = step
    return consumed_at, sent_at


def _operations(program: Program, rank: int) -> Iterator[tuple[int, Op]]:
    return ((number, op) for number, step in enumerate(program.ranks[rank]) for op in step)
