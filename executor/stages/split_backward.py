"""How are input gradients computed now and weight gradients later, with the work of one backward?

In the graph of a stage, some nodes lie on a path to an input. An edge from such a node to one that is on no
such path departs to parameters. The first pass computes the inputs' gradients, skips what departs, and keeps
the gradient that arrives at every node with a departing edge. The second pass runs those nodes again from
that gradient, for their parameters alone. A parameter to which several nodes depart has its gradient computed
by a pass of its own from the outputs, since a run from one of the nodes could come through another.

Source of the idea: Qi et al., Zero Bubble Pipeline Parallelism (arXiv 2401.10241).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

_LEAF = "AccumulateGrad"
"""The end of the name of the node that adds to the gradient of a leaf."""


@dataclass
class _Departure:
    """A node on a path to an input, or an output on none, behind which parameters lie."""

    edges: tuple[GradientEdge, ...]
    """One for each of the node's results that is used."""
    gradients: tuple[Tensor | None, ...]
    """What arrives there; known from the start for an output."""
    parameters: list[Node] = field(default_factory=list)
    """The leaves' nodes."""


class SplitBackward:
    """The backward of one graph in two steps. It gives the same gradients as one step."""

    def __init__(
        self, roots: Sequence[GradientEdge], gradients: Sequence[Tensor], leaves: Sequence[Tensor]
    ) -> None:
        """`roots` are the outputs' edges, with their gradients; `leaves` the inputs that need a gradient."""
        self._roots, self._gradients = tuple(roots), tuple(gradients)
        self._leaves = tuple(get_gradient_edge(leaf) for leaf in leaves)
        self._on_path, self._departing = _explore(
            self._roots, self._gradients, {leaf.node for leaf in self._leaves}
        )
        uses = Counter(node for departure in self._departing for node in departure.parameters)
        self._shared = tuple(GradientEdge(node, 0) for node, count in uses.items() if count > 1)
        for departure in self._departing:
            departure.parameters = [node for node in departure.parameters if uses[node] == 1]

    def inputs(self) -> tuple[Tensor | None, ...]:
        """The gradients of the inputs; None for one that has no path to an output."""
        reached = [leaf for leaf in self._leaves if leaf.node in self._on_path]
        awaited = [departure for departure in self._departing if departure.gradients == ()]
        wanted = [*reached, *(edge for departure in awaited for edge in departure.edges)]
        found: Iterable[Tensor | None] = ()
        if wanted:
            found = torch.autograd.grad(
                self._roots,
                wanted,
                self._gradients,
                retain_graph=bool(self._departing),
                allow_unused=True,
            )
        arriving = iter(found)
        of_leaf = {leaf.node: next(arriving) for leaf in reached}
        for departure in awaited:
            departure.gradients = tuple(next(arriving) for _ in departure.edges)
        leaves, self._leaves, self._on_path = self._leaves, (), set()
        if not self._shared:
            self._roots = self._gradients = ()
        return tuple(of_leaf.get(leaf.node) for leaf in leaves)

    def weights(self) -> None:
        """Add to the gradients of the parameters, and let go of the graph."""
        if self._shared:
            torch.autograd.backward(self._roots, self._gradients, inputs=self._shared, retain_graph=True)
        while self._departing:
            departure = self._departing.pop()
            arrived = [
                (edge, gradient)
                for edge, gradient in zip(departure.edges, departure.gradients, strict=True)
                if gradient is not None
            ]
            if arrived and departure.parameters:
                torch.autograd.backward(
                    [edge for edge, _ in arrived],
                    [gradient for _, gradient in arrived],
                    inputs=[GradientEdge(node, 0) for node in departure.parameters],
                )
        self._roots = self._gradients = self._shared = ()


def _explore(
    roots: Sequence[GradientEdge], gradients: Sequence[Tensor], inputs: set[Node]
) -> tuple[set[Node], list[_Departure]]:
    """Nodes on a path from an output to an input, and where parameters depart, outputs first."""
    children = _children(root.node for root in roots)
    on_path: set[Node] = set()
    for node in reversed(children):  # what a node leads to comes before it
        if node in inputs or any(child in on_path for child, _ in children[node]):
            on_path.add(node)
    results: dict[Node, dict[int, None]] = {}
    for node, number in [*_pairs(roots), *(edge for edges in children.values() for edge in edges)]:
        results.setdefault(node, {})[number] = None
    departing = []
    for node in children:
        if node not in on_path:
            continue
        aside = [child for child, _ in children[node] if child not in on_path]
        parameters = _leaves_below(aside, children)
        if parameters:
            edges = tuple(GradientEdge(node, number) for number in results[node])
            departing.append(_Departure(edges, (), parameters))
    for root, gradient in zip(roots, gradients, strict=True):
        if root.node not in on_path:
            departing.append(_Departure((root,), (gradient,), _leaves_below([root.node], children)))
    return on_path, departing


def _pairs(edges: Iterable[GradientEdge]) -> list[tuple[Node, int]]:
    return [(edge.node, edge.output_nr) for edge in edges]


def _children(roots: Iterable[Node]) -> dict[Node, list[tuple[Node, int]]]:
    """Every node that can be reached, with what it leads to; a node comes before all that it leads to.

    Holding the nodes keeps their identity: autograd makes new objects for nodes that nobody holds.
    """
    edges: dict[Node, list[tuple[Node, int]]] = {}
    finished: dict[Node, None] = {}
    stack: list[tuple[Node, bool]] = [(root, False) for root in roots]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            finished[node] = None
        elif node not in edges:
            edges[node] = [(child, number) for child, number in node.next_functions if child is not None]
            stack.append((node, True))
            stack.extend((child, False) for child, _ in edges[node] if child not in edges)
    return {node: edges[node] for node in reversed(finished)}


def _leaves_below(nodes: Iterable[Node], children: dict[Node, list[tuple[Node, int]]]) -> list[Node]:
    """The leaves' nodes among these and what they lead to, each once."""
    seen: dict[Node, None] = dict.fromkeys(nodes)
    queue = list(seen)
    for node in queue:
        for child, _ in children[node]:
            if child not in seen:
                seen[child] = None
                queue.append(child)
    return [node for node in seen if node.name().endswith(_LEAF)]
