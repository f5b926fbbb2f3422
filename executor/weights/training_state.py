"""What must be kept to go on with a training, in this layout or another, and how is it taken up again?

{"model": {"layers.0.weight": tensor, ...},      every key once, low-precision where the run is mixed
 "optimizer": {"layers.0.weight": entry, ...},   see `optimizer_state`; tied ones under one name
 "loss_scale": {...} or None}
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from executor.errors import CheckpointError
from executor.weights.collecting import collect, collect_objects
from executor.weights.groups import ParameterGroups
from executor.weights.holdings import RankWeights
from executor.weights.optimizer_state import Entry, export, load
from executor.weights.precision import LossScale
from executor.weights.replicas import full_state, load_full_state

_MASTER = "master"


def gather_training_state(
    weights: RankWeights, groups: ParameterGroups, *, rank: int, loss_scale: LossScale | None = None
) -> dict[str, Any]:
    """The whole state on process 0, empty elsewhere; every process calls this, between iterations."""
    tensors: dict[str, Tensor] = {}
    plain: dict[str, Entry] = {}
    for number, state in sorted(weights.groups.items()):
        entries = export(state, process_group=groups.process_group(number))
        for name, entry in entries.items() if groups.firsts[number] == rank else ():
            values = entry["state"] | ({_MASTER: entry[_MASTER]} if _MASTER in entry else {})
            kept = {key: value for key, value in values.items() if isinstance(value, Tensor)}
            tensors |= {f"{name} {key}": value for key, value in kept.items()}
            rest = {key: value for key, value in values.items() if key not in kept}
            plain[name] = {"state": rest, "options": entry["options"]}
    model = full_state(weights, groups, rank=rank)
    found = collect(tensors, to=0)
    optimizer = {name: entry for part in collect_objects(plain) for name, entry in part.items()}
    if rank != 0:
        return {}
    for label, value in found.items():
        name, _, key = label.rpartition(" ")
        (optimizer[name] if key == _MASTER else optimizer[name]["state"])[key] = value
    scale = None if loss_scale is None else loss_scale.state()
    return {"model": model, "optimizer": optimizer, "loss_scale": scale}


def load_training_state(
    weights: RankWeights, state: Mapping[str, Any], *, loss_scale: LossScale | None = None
) -> None:
    """Take this rank's part of a whole state; every process calls this with all of it.

    Raises CheckpointError where it is of another model, optimizer or choice of trained parameters. Masters go
    into float32 weights where this run is not mixed, and are made of the weights where the saved one was not.
    """
    missing = {"model", "optimizer"} - set(state)
    if missing:
        raise CheckpointError(
            f"the state has no {' and no '.join(sorted(missing))}: give one that was gathered whole"
        )
    entries: Mapping[str, Entry] = state["optimizer"]
    masters = {name: entry[_MASTER] for name, entry in entries.items() if _MASTER in entry}
    load_full_state(weights, {**state["model"], **masters})
    for group in weights.groups.values():
        load(group, entries)
    if loss_scale is not None and state.get("loss_scale"):
        loss_scale.load(state["loss_scale"])
