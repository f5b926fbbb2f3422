"""How is a micro-batch cut into equal parts along its samples, and put together again?"""

from collections.abc import Sequence

import torch

from executor.errors import ModelError
from executor.values import Spec, Tensors


def cut(values: Tensors, parts: int) -> list[Tensors]:
    """Equal parts along the first dimension of every tensor, as leaves with the flags of the whole."""
    if parts == 1:
        return [values]
    for value in values:
        if value.ndim == 0 or value.shape[0] % parts:
            raise ModelError(
                f"halving cuts every micro-batch in {parts}, and a tensor of shape {list(value.shape)} has "
                f"no {parts} equal parts along its first dimension: choose an even micro-batch size, and let "
                "the first dimension of all that passes between stages count samples"
            )
    pieces = [value.detach().chunk(parts) for value in values]
    flags = [value.requires_grad for value in values]
    return [
        tuple(piece[part].requires_grad_(flag) for piece, flag in zip(pieces, flags, strict=True))
        for part in range(parts)
    ]


def joined(parts: Sequence[Tensors]) -> Tensors:
    """The parts' tensors one behind the other, as leaves; needing a gradient where any part's does."""
    if not parts:
        return ()
    if len(parts) == 1:
        return parts[0]
    return tuple(
        torch.cat([value.detach() for value in values]).requires_grad_(
            any(value.requires_grad for value in values)
        )
        for values in zip(*parts, strict=True)
    )


def joined_spec(spec: Spec, parts: int) -> Spec:
    """Of the whole, from that of a part."""
    if parts == 1:
        return spec
    if not spec.shape:
        raise ModelError(
            f"halving puts {parts} parts together along their first dimension, and a stage gives {spec} "
            "without one: return one value for each sample"
        )
    return spec._replace(shape=(spec.shape[0] * parts, *spec.shape[1:]))
