"""Which random numbers does a layer draw? Those of its place in the model and in the data, nothing else.

Dropout then depends neither on how layers are cut into stages, nor on the schedule, nor on whether an
activation is computed a second time; one process that seeds the same way draws the same masks. Python's and
numpy's generators are left alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from struct import Struct

import torch

_PLACE = Struct("<5q")


def layer_seed(seed: int, *, iteration: int, micro_batch: int, part: int, layer: int) -> int:
    """63 bits for a layer, by its number in the model, and a micro-batch, by its number in the mini-batch."""
    place = _PLACE.pack(seed, iteration, micro_batch, part, layer)
    return int.from_bytes(blake2b(place, digest_size=8).digest(), "little") >> 1


def seed_layer(seed: int, *, iteration: int, micro_batch: int, part: int, layer: int) -> None:
    """Seed torch's generators before a layer's forward: the CPU's, and the current CUDA device's in use."""
    number = layer_seed(seed, iteration=iteration, micro_batch=micro_batch, part=part, layer=layer)
    torch.default_generator.manual_seed(number)
    if uses_cuda():
        torch.cuda.manual_seed(number)


def uses_cuda() -> bool:
    """Whether this process has computed on a CUDA device."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


@contextmanager
def kept_random_state() -> Iterator[None]:
    """Give torch's generators back as they were: what the user draws next does not depend on the layers."""
    on_cpu = torch.get_rng_state()
    uses_cuda = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    on_cuda = torch.cuda.get_rng_state() if uses_cuda else None
    try:
        yield
    finally:
        torch.set_rng_state(on_cpu)
        if on_cuda is not None:
            torch.cuda.set_rng_state(on_cuda)
