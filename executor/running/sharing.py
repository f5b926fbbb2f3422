"""Which weights do layers of different stages share, and has the pipeline been told?

Two stages are trained in different places: a weight that both use must be named as tied, or its copies would
drift apart.
"""

from collections import defaultdict
from collections.abc import Sequence

from torch import nn

from executor.errors import ConfigurationError

Members = Sequence[tuple[int, str]]
"""(layer, name within it) of one weight."""


def refuse_unsaid(layers: Sequence[nn.Module], cuts: Sequence[range], tied: Sequence[Members]) -> None:
    """Raise ConfigurationError where layers of two stages share a trained weight that no tied group has.

    Other sequences than lists, tuples and torch's own make each layer where it is held, and share nothing.
    """
    if not isinstance(layers, list | tuple | nn.ModuleList | nn.Sequential):
        return
    stage_of = {layer: stage for stage, cut in enumerate(cuts) for layer in cut}
    groups = [set(group) for group in tied]
    for members in _shared(layers):
        stages = {stage_of[layer] for layer, _ in members}
        if len(stages) > 1 and not any(
            stages <= {stage_of[layer] for layer, _ in group & set(members)} for group in groups
        ):
            names = " and ".join(f"layers.{layer}.{name}" for layer, name in members)
            raise ConfigurationError(
                f"{names} are one parameter, and stages {', '.join(map(str, sorted(stages)))} train it in "
                f"different places: say so with Settings(tied=({tuple(members)!r},))"
            )


def _shared(layers: Sequence[nn.Module]) -> list[list[tuple[int, str]]]:
    """The trained parameters that several layers have."""
    found: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for number, layer in enumerate(layers):
        for name, parameter in layer.named_parameters(remove_duplicate=False):
            if parameter.requires_grad:
                found[id(parameter)].append((number, name))
    return [members for members in found.values() if len({number for number, _ in members}) > 1]
