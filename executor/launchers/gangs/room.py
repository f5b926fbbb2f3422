"""Where would the ranks of a gang find room, and what is missing? In numbers, node by node; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Resources = Mapping[str, float]
_MOST_NODES = 20


@dataclass(frozen=True)
class Node:
    """A machine of a cluster."""

    name: str
    total: Resources
    """By name: CPU, GPU."""
    free: Resources
    state: str = ""
    """Why it takes no work, if it does not."""


def places_in(resources: Resources, wanted: Resources) -> int:
    """How many ranks that want so much each fit."""
    return min((int(resources.get(name, 0) / amount) for name, amount in wanted.items() if amount), default=0)


def most_places(nodes: Sequence[Node], wanted: Resources) -> int:
    """How many ranks the nodes that work can hold when they are idle."""
    return sum(places_in(node.total, wanted) for node in nodes if not node.state)


def tell_room(nodes: Sequence[Node], *, ranks: int, wanted: Resources) -> str:
    """What is wanted, what there is, and how much is missing."""
    each = " and ".join(f"{amount:g} {name}" for name, amount in wanted.items() if amount)
    free = [0 if node.state else places_in(node.free, wanted) for node in nodes]
    total, now = most_places(nodes, wanted), sum(free)
    shown = list(map(_tell_node, nodes[:_MOST_NODES], free))
    shown += [f"{len(nodes) - _MOST_NODES} more nodes"] if len(nodes) > _MOST_NODES else []
    missing = f"missing now: {ranks - now}" if ranks > now else "enough just now"
    if ranks > total:
        missing = f"missing even when all are idle: {ranks - total}"
    return (
        f"wanted at once: {ranks} devices of {each}; room on {len(nodes)} nodes: "
        f"{' + '.join(map(str, free)) or '0'} = {now} now, {total} when idle ({'; '.join(shown)}); {missing}"
    )


def _tell_node(node: Node, places: int) -> str:
    if node.state:
        return f"{node.name} is {node.state}"
    parts = [f"{node.free.get(name, 0):g} of {total:g} {name}" for name, total in node.total.items() if total]
    return f"{node.name}: {', '.join(parts)} free, room for {places}"
