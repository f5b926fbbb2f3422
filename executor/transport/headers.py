"""How does a rank learn the shapes that will come, before anything comes?

A header is what `Spec` says of the tensors of one message, as integers: the dtype's number, whether a
gradient is needed, and the shape. Its length travels ahead of it. Headers go over gloo, whatever the
payloads go over.
"""

from collections.abc import Sequence

import torch
import torch.distributed as dist

from executor.errors import ConfigurationError, ModelError, TransportError
from executor.transport.channels import FIRST_HEADER_TAG, lost
from executor.values import Spec

_DTYPES = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    *(torch.uint16, torch.uint32, torch.uint64, torch.complex32),
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz),
)
_NOTHING = -1
_MOST_NUMBERS = 2**18
"""Headers between two ranks, in one direction, that have tags of their own."""


def send_header(
    specs: Sequence[Spec] | None, *, target: int, group: dist.ProcessGroup | None = None, number: int = 0
) -> None:
    """Tell a global rank what a message will hold, or None: it will not come; returns once it knows.

    `number` tells headers between the same two ranks apart; those of one number come in the order sent.
    """
    encoded = torch.tensor(_encode(specs), dtype=torch.int64)
    length = torch.tensor([len(encoded)], dtype=torch.int64)
    tag = _tag(number)
    _complete(
        [
            dist.isend(length, target, group=group, tag=tag),
            dist.isend(encoded, target, group=group, tag=tag + 1),
        ],
        f"the header {number} to global rank {target}",
    )


def receive_header(
    *, source: int, group: dist.ProcessGroup | None = None, number: int = 0
) -> tuple[Spec, ...] | None:
    """What a global rank says that a message will hold, None if it will not come; waits for it."""
    title, tag = f"the header {number} from global rank {source}", _tag(number)
    length = torch.empty(1, dtype=torch.int64)
    _complete([dist.irecv(length, source, group=group, tag=tag)], title)
    encoded = torch.empty(int(length.item()), dtype=torch.int64)
    _complete([dist.irecv(encoded, source, group=group, tag=tag + 1)], title)
    return _decode(encoded.tolist())


def _encode(specs: Sequence[Spec] | None) -> list[int]:
    if specs is None:
        return [_NOTHING]
    numbers = [len(specs)]
    for place, spec in enumerate(specs):
        if spec.dtype not in _DTYPES:
            raise ModelError(
                f"tensor {place} of {len(specs)} between two stages is {spec}: {spec.dtype} cannot travel; "
                "convert it to a dtype of ordinary numbers"
            )
        numbers += [_DTYPES.index(spec.dtype), int(spec.needs_gradient), len(spec.shape), *spec.shape]
    return numbers


def _decode(numbers: list[int]) -> tuple[Spec, ...] | None:
    count, *rest = numbers
    if count == _NOTHING:
        return None
    specs = []
    for _ in range(count):
        dtype, needs_gradient, dimensions, *rest = rest
        specs.append(Spec(tuple(rest[:dimensions]), _DTYPES[dtype], bool(needs_gradient)))
        rest = rest[dimensions:]
    return tuple(specs)


def _tag(number: int) -> int:
    if not 0 <= number < _MOST_NUMBERS:
        raise ConfigurationError(f"header number {number}: numbers go from 0 to {_MOST_NUMBERS - 1}")
    return FIRST_HEADER_TAG + 2 * number


def _complete(works: Sequence[dist.Work | None], title: str) -> None:
    try:
        for work in works:
            if work is None:
                raise TransportError(
                    f"{title}: this rank is not in the process group; give one that holds both"
                )
            work.wait()
    except RuntimeError as error:
        raise lost(title, error) from error
