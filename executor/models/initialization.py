"""Which weights does a layer begin with, whatever the layout, the device and the precision?

Each layer draws from a stream of its own, given by the seed and its number, on the CPU and in float32, by the
model's own rules. A rank makes its layers alone and they are what any other rank would have made.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn
from transformers.modeling_utils import PreTrainedModel

from executor.models import stand_ins
from executor.models.stand_ins import Outline, Place
from executor.stages.seeding import layer_seed


def fill(
    root: nn.Module,
    places: Iterable[Place],
    outlines: Mapping[str, Outline],
    *,
    device: torch.device,
) -> dict[str, nn.Parameter]:
    """Put empty float32 parameters at `places` (named from `root`), shared ones once; gives them by name."""
    modules = dict(root.named_modules())
    made: dict[str, nn.Parameter] = {}
    for place in places:
        if place.parameter not in made:
            outline = outlines[place.parameter]
            dtype = torch.float32 if outline.dtype.is_floating_point else outline.dtype
            made[place.parameter] = nn.Parameter(torch.empty(outline.shape, dtype=dtype, device=device))
        stand_ins.fill_in(modules[place.module], place.attribute, made[place.parameter])
    return made


def initialize(root: nn.Module, rules: Any, *, seed: int, layer: int) -> None:
    """Draw the parameters of `root` by the rules of the model `rules`, children before their parents."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(layer_seed(seed, iteration=-1, micro_batch=0, part=0, layer=layer))
        for module, owner in _bottom_up(root, rules):
            complete = any(True for _ in module.parameters()) and not stand_ins.has_stand_ins(module)
            if complete:
                owner._init_weights(module)


def cast(parameters: Mapping[str, nn.Parameter], outlines: Mapping[str, Outline]) -> None:
    """Give the parameters the precision that the model has them in."""
    for name, parameter in parameters.items():
        parameter.data = parameter.data.to(outlines[name].dtype)


def _bottom_up(module: nn.Module, owner: Any) -> Iterator[tuple[nn.Module, Any]]:
    """Modules with the model whose rules hold for them: the innermost one around each."""
    owner = module if isinstance(module, PreTrainedModel) else owner
    for child in module.children():
        yield from _bottom_up(child, owner)
    yield module, owner
