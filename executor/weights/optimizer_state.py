"""What is the state of an optimizer by parameter name, so that it can be loaded in another layout?

    {"layers.0.weight": {"state": {"step": ..., "exp_avg": [parameter's shape]}, "options": {"lr": ...},
                         "master": [parameter's shape, float32]}}

Whole optimizers have it on each replica; of sharded ones every replica has a piece, and all must take part.
"""

from collections.abc import Mapping
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.optim import Optimizer

from executor.errors import CheckpointError
from executor.weights.shard_state import gather_masters, gather_shards
from executor.weights.shards import SCALARS, ShardedSteps, numbers_of, state_of_shape
from executor.weights.state import GroupState
from executor.weights.steps import WholeSteps

Entry = dict[str, Any]
"""`state`, `options` and, in a mixed run, `master` of one parameter."""


def export(state: GroupState, *, process_group: dist.ProcessGroup | None) -> dict[str, Entry]:
    """By parameter name; every member of the group calls this, and gets all of it."""
    steps = state.steps
    if steps is None:
        return {}
    found: dict[str, Entry] = {name: {"state": {}} for name in state.names}
    if isinstance(steps, ShardedSteps):
        numbers: Mapping[str, int] = steps.numbers
        for name, values in gather_shards(steps, process_group=process_group).items():
            found[name]["state"] = values
        masters: Mapping[str, Tensor] = gather_masters(steps, process_group=process_group)
    else:
        whole = _whole(steps)
        numbers = numbers_of(whole.optimizer, whole.targets)
        for name, target in whole.targets.items():
            found[name]["state"] = {
                key: _copy(value) for key, value in whole.optimizer.state.get(target, {}).items()
            }
        masters = whole.targets if whole.mixed else {}
    for name, entry in found.items():
        group = steps.optimizer.param_groups[numbers[name]]
        entry["options"] = {key: value for key, value in group.items() if key != "params"}
        if name in masters:
            entry["master"] = _copy(masters[name])
    return found


def load(state: GroupState, entries: Mapping[str, Entry]) -> None:
    """Go on with the state of a checkpoint; raises CheckpointError where it is not of these parameters.

    Masters are loaded with the weights.
    """
    steps = state.steps
    if steps is None:
        return
    missing = [name for name in state.names if name not in entries]
    if missing:
        raise CheckpointError(
            f"the checkpoint has no optimizer state of {missing[0]} and {len(missing) - 1} more parameters: "
            "are the same ones trained?"
        )
    if isinstance(steps, ShardedSteps):
        numbers: Mapping[str, int] = steps.numbers
        steps.load_state({name: entries[name]["state"] for name in state.names})
    else:
        whole = _whole(steps)
        numbers = numbers_of(whole.optimizer, whole.targets)
        for name, target in whole.targets.items():
            whole.optimizer.state.pop(target, None)
            for key, value in entries[name]["state"].items():
                whole.optimizer.state[target][key] = _like(value, target, key=key, name=name)
    _load_options(steps.optimizer, numbers, entries=entries)


def _load_options(optimizer: Optimizer, numbers: Mapping[str, int], *, entries: Mapping[str, Entry]) -> None:
    for number, group in enumerate(optimizer.param_groups):
        names = [name for name, index in numbers.items() if index == number]
        for name in names[1:]:
            if entries[name]["options"] != entries[names[0]]["options"]:
                raise CheckpointError(
                    f"{names[0]} and {name} have one set of options in this optimizer and two in the "
                    "checkpoint: build the optimizer with the parameter groups of the saved one"
                )
        if names:
            group.update(entries[names[0]]["options"])


def _whole(steps: object) -> WholeSteps:
    if not isinstance(steps, WholeSteps):
        raise TypeError(f"{type(steps).__name__} has no state that could be exported")
    return steps


def _copy(value: Any) -> Any:
    return value.detach().cpu().clone() if isinstance(value, Tensor) else value


def _like(value: Any, target: Tensor, *, key: str, name: str) -> Any:
    """A value of the state where its parameter is; scalars stay on the CPU, where optimizers keep them."""
    if not isinstance(value, Tensor) or key in SCALARS or (value.ndim == 0 and target.ndim):
        return _copy(value)
    dtype = target.dtype if value.is_floating_point() else value.dtype
    return state_of_shape(value, target, name=name).to(device=target.device, dtype=dtype, copy=True)
