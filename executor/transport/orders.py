"""Can the transfers of a program be matched without tags, and run one after the other on every rank?

A communicator of NCCL matches what two ranks transfer in the order in which they started it, and a rank's own
transfers, with whomever, run in the order in which it started them: one that waits holds up all behind it.
"""

from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import groupby

from executor.errors import ConfigurationError
from executor.transport.channels import describe
from tuner.schedules.messages import Message, message_of
from tuner.schedules.program import RECEIVES, SENDS, Program, Step

_Fused = tuple[int, int, bool]
"""(rank, number of the fused call, whether it is over)."""

_ADVICE = "rearrange the program with tuner.schedules.ordering.in_common_order"


def check_common_order(program: Program) -> None:
    """Raise ConfigurationError unless both ranks of every pair list their transfers in one order."""
    listed: dict[tuple[int, int], list[Message]] = defaultdict(list)
    for rank, steps in enumerate(program.ranks):
        for message in (message_of(step[0]) for step in steps if _travels(step)):
            source, target = message.source(program), message.target(program)
            listed[rank, target if rank == source else source].append(message)
    for (rank, peer), messages in listed.items():
        others = listed.get((peer, rank), [])
        if messages == others:
            continue
        shorter = min(len(messages), len(others))
        place = next((at for at in range(shorter) if messages[at] != others[at]), shorter)
        raise ConfigurationError(
            f"ranks {rank} and {peer} list their {len(messages)} and {len(others)} transfers in two orders, "
            f"from number {place} on ({describe(max(messages, others, key=len)[place])}): over NCCL they "
            f"would get each other's data; {_ADVICE}"
        )


def check_one_by_one(program: Program) -> None:
    """Raise ConfigurationError if ranks that run one fused call after another would wait in a circle.

    A call starts when the one before it is over, and is over when the calls of the other ends have started.
    What a SEND needs was received in calls before it, so operations need no looking at.
    """
    waits: TopologicalSorter[_Fused] = TopologicalSorter()
    ends: dict[Message, list[tuple[int, int]]] = defaultdict(list)
    calls = [list(fused_calls(program, rank)) for rank in range(program.depth)]
    for rank, number, message in _listed(calls):
        ends[message].append((rank, number))
    for rank, number, message in _listed(calls):
        if number:
            waits.add((rank, number, False), (rank, number - 1, True))
        waits.add((rank, number, True), *((*end, False) for end in ends[message]))
    try:
        waits.prepare()
    except CycleError as error:
        circle = dict.fromkeys(place[:2] for place in error.args[1])
        places = "; ".join(f"rank {rank} at {describe(calls[rank][number][0])}" for rank, number in circle)
        raise ConfigurationError(
            f"over NCCL, where a rank's transfers run one after the other, these would wait for each other: "
            f"{places}; {_ADVICE}, or use gloo"
        ) from None


def fused_calls(program: Program, rank: int) -> Iterator[list[Message]]:
    """The transfers of a rank that stand next to each other, and are started in one call."""
    for travelling, group in groupby(program.ranks[rank], key=_travels):
        if travelling:
            yield [message_of(step[0]) for step in group]


def _listed(calls: list[list[list[Message]]]) -> Iterator[tuple[int, int, Message]]:
    for rank, of_rank in enumerate(calls):
        for number, call in enumerate(of_rank):
            for message in call:
                yield rank, number, message


def _travels(step: Step) -> bool:
    return step[0].kind in SENDS or step[0].kind in RECEIVES
