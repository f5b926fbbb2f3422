"""How do named tensors that are spread over processes come together on one, or on all?"""

from collections.abc import Mapping
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor

Everywhere = Literal["everywhere"]

Announced = list[tuple[str, tuple[int, ...], torch.dtype]]


def collect(mine: Mapping[str, Tensor], *, to: int | Everywhere) -> dict[str, Tensor]:
    """The tensors of all processes, on the CPU of process `to` or of all of them; empty elsewhere.

    Names must be held by one process each. Tensor by tensor, so that nobody needs twice the memory. Every
    process of the default group calls this.
    """
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return {name: tensor.detach().cpu().clone() for name, tensor in mine.items()}
    rank = dist.get_rank()
    announced: list[Announced] = [[] for _ in range(dist.get_world_size())]
    dist.all_gather_object(announced, [(name, tuple(t.shape), t.dtype) for name, t in mine.items()])
    found: dict[str, Tensor] = {}
    for source, tensors in enumerate(announced):
        for name, shape, dtype in tensors:
            is_mine = source == rank
            value = mine[name].detach().cpu().clone() if is_mine else torch.empty(shape, dtype=dtype)
            if _travels(value, source=source, to=to):
                found[name] = value
    return found


def collect_objects(mine: Any) -> list[Any]:
    """A small object of every process, in order of rank."""
    if not dist.is_initialized():
        return [mine]
    answers: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(answers, mine)
    return answers


def _travels(value: Tensor, *, source: int, to: int | Everywhere) -> bool:
    """Carry a tensor's bytes where they belong; whether this process has them now."""
    content = value.reshape(-1).view(torch.uint8) if value.numel() else value.reshape(-1)
    rank = dist.get_rank()
    if to == "everywhere":
        if value.numel():
            dist.broadcast(content, source)
        return True
    if value.numel() and source != to:
        if rank == source:
            dist.send(content, to)
        elif rank == to:
            dist.recv(content, source)
    return rank == to
