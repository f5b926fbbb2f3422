"""What does torch load when it is used for the first time, which is no memory of a model?

Modules of Python, kernels made for this processor, and the buffers of connections and threads. They are there
from the first step of any training on: a rank uses all of it once, on next to nothing, before its memory is
metered.
"""

from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist
from torch import nn

from executor.stages.seeding import kept_random_state

_SIZE = 8


def load_lazily_loaded(optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]) -> None:
    """A step of a few numbers, and a collective; every process calls this."""
    with kept_random_state():
        layers = nn.Sequential(
            nn.Embedding(_SIZE, _SIZE), nn.Linear(_SIZE, _SIZE), nn.LayerNorm(_SIZE), nn.GELU()
        )
        stepper = optimizer(layers.parameters())
        states = layers(torch.arange(_SIZE).reshape(1, -1))  # [1, S, h]
        attended = nn.functional.scaled_dot_product_attention(states, states, states, is_causal=True)
        loss = nn.functional.cross_entropy(attended.flatten(0, 1), torch.arange(_SIZE))
        torch.autograd.backward(loss)
        stepper.step()
    told: list[object] = [None] * dist.get_world_size()
    dist.all_gather_object(told, 0)
