"""Where does a gradient go into a graph, and how is a backward run from there?"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, _engine_run_backward, get_gradient_edge


def edge_of(value: Tensor) -> GradientEdge:
    """Where the gradient of a value that needs one goes into its graph; the value itself is not held."""
    node, number = value.grad_fn, value.output_nr
    if node is not None and isinstance(cast("object", node), torch._C._FunctionBase):
        node, number = value.view_as(value).grad_fn, 0  # a node written in Python does not hold its graph
    return get_gradient_edge(value) if node is None else GradientEdge(node, number)


def run_backward(roots: Sequence[GradientEdge], gradients: Sequence[Tensor]) -> None:
    """Add up the gradients of all leaves of a graph, which is let go.

    This is what `torch.autograd.backward` calls behind its checks of edges, which the engine makes again.
    They take a third of the time of a small stage's backward, between two messages.
    """
    _engine_run_backward(
        tuple(roots), tuple(gradients), False, False, (), allow_unreachable=True, accumulate_grad=True
    )
