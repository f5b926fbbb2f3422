"""How does the state of an optimizer come together, whose shards lie on several ranks?

All members step together: what is kept for every element has the layout of the weights, and scalars are
the same.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from executor.weights.scattering import gather_pieces
from executor.weights.shards import SCALARS, ShardedSteps

Values = dict[str, Any]
Keys = dict[tuple[int, str], tuple[torch.dtype | None, Any]]
"""By option group and name of a value: the dtype of what is kept for every element, or the scalar."""


def gather_shards(steps: ShardedSteps, *, process_group: dist.ProcessGroup | None) -> dict[str, Values]:
    """The state of every parameter, by name; every member calls this."""
    keys: Keys = {}
    for part in _everyones(_keys(steps), process_group):
        keys |= part
    found: dict[str, Values] = {name: {} for name in steps.numbers}
    for (options, key), (dtype, scalar) in sorted(keys.items(), key=lambda item: item[0]):
        for index, flat in enumerate(steps.flats):
            names = [name for name in flat.names if steps.numbers[name] == options]
            if dtype is None:
                for name in names:
                    found[name][key] = scalar.clone() if isinstance(scalar, Tensor) else scalar
                continue
            whole = torch.zeros(flat.layout.length, dtype=dtype, device=flat.flat.device)
            for piece in steps.pieces:
                if piece.flat == index and piece.options == options:
                    whole[piece.start : piece.stop] = steps.optimizer.state[piece.target][key]
            views = _gathered(steps, index, whole=whole, process_group=process_group)
            found |= {name: found[name] | {key: views[name].cpu().clone()} for name in names}
    return found


def gather_masters(steps: ShardedSteps, *, process_group: dist.ProcessGroup | None) -> dict[str, Tensor]:
    """The float32 masters of every parameter in a mixed run, by name; every member calls this."""
    found: dict[str, Tensor] = {}
    for index, flat in enumerate(steps.flats if steps.mixed else ()):
        whole = torch.zeros(flat.layout.length, dtype=torch.float32, device=flat.flat.device)
        for piece in steps.pieces:
            if piece.flat == index:
                whole[piece.start : piece.stop] = piece.target.detach()
        found |= _gathered(steps, index, whole=whole, process_group=process_group)
    return found


def _keys(steps: ShardedSteps) -> Keys:
    """What this rank's pieces have."""
    found: Keys = {}
    for piece in steps.pieces:
        for key, value in steps.optimizer.state.get(piece.target, {}).items():
            scalar = key in SCALARS or not isinstance(value, Tensor)
            kept = value.detach().cpu().clone() if isinstance(value, Tensor) and scalar else value
            found[piece.options, key] = (None, kept) if scalar else (value.dtype, None)
    return found


def _everyones(keys: Keys, process_group: dist.ProcessGroup | None) -> list[Keys]:
    if process_group is None:
        return [keys]
    answers: list[Keys] = [{} for _ in range(process_group.size())]
    dist.all_gather_object(answers, keys, group=process_group)
    return answers


def _gathered(
    steps: ShardedSteps, index: int, *, whole: Tensor, process_group: dist.ProcessGroup | None
) -> dict[str, Tensor]:
    """Fill a flat buffer with the shards of all members; its views by name."""
    flat = steps.flats[index]
    if process_group is not None:
        for bucket in range(flat.layout.buckets):
            own = whole[flat.layout.shard(bucket, steps.shard.member)]
            gather_pieces(whole[flat.layout.bucket(bucket)], own, process_group=process_group).wait()
    return dict(zip(flat.names, flat.layout.views(whole), strict=True))
