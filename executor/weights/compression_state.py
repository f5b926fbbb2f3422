"""What does a compression remember that a checkpoint keeps, and how is it taken up in another layout?

{"compression": "topk", "steps": 100,
 "residuals": {"layers.0.weight": [replicas, parameter's shape], ...},   of error feedback, by parameter name
 "factors": {"layers.0.weight 4096 0": [side, rank], ...}}            of powersgd: first name, elements, start

With as many replicas each goes on with its own residual; with another number all of them get the mean share,
so that what is owed to the sum stays the same. Factors are used again where a buffer is cut as it was.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from executor.compression.compressor import Compressor
from executor.errors import CheckpointError
from executor.weights.collecting import collect
from executor.weights.gradients import FlatGradients
from executor.weights.groups import ParameterGroups
from executor.weights.holdings import RankWeights

Place = tuple[int, int]


def gather_compression_state(
    compressor: Compressor, weights: RankWeights, groups: ParameterGroups, *, rank: int
) -> dict[str, Any]:
    """All of it on process 0, empty elsewhere; every process calls this, between iterations."""
    residuals: dict[str, Tensor] = {}
    factors: dict[str, Tensor] = {}
    for place, flat in _buffers(weights):
        replica = groups.members[place[0]].index(rank)
        residual = compressor.feedback.residuals.get(place)
        if residual is not None:
            views = zip(flat.names, flat.layout.views(residual), strict=True)
            residuals |= {f"{name} {replica}": view for name, view in views}
        if replica == 0:
            mine = {key: factor for key, factor in compressor.factors.items() if key[:2] == place}
            factors |= {_factor_name(flat, start): factor for (*_, start), factor in mine.items()}
    found, kept = collect(residuals, to=0), collect(factors, to=0)
    if rank != 0 or compressor.compression.name == "none":
        return {}
    stacked: dict[str, dict[int, Tensor]] = {}
    for label, value in found.items():
        name, _, replica_text = label.rpartition(" ")
        stacked.setdefault(name, {})[int(replica_text)] = value
    return {
        "compression": str(compressor.compression),
        "steps": compressor.steps,
        "residuals": {
            name: torch.stack([each for _, each in sorted(of.items())]) for name, of in stacked.items()
        },
        "factors": kept,
    }


def load_compression_state(
    compressor: Compressor,
    weights: RankWeights,
    groups: ParameterGroups,
    *,
    rank: int,
    state: Mapping[str, Any],
) -> None:
    """Take this rank's part; a state of a run without compression leaves none.

    What is owed is dropped where this run keeps no residuals, or holds a stage once. Raises CheckpointError
    where a residual is of another shape than its parameter.
    """
    compressor.steps = int(state.get("steps", 0))
    compressor.feedback.residuals.clear()
    compressor.factors.clear()
    residuals: Mapping[str, Tensor] = state.get("residuals", {})
    for place, flat in _buffers(weights):
        members = groups.members[place[0]]
        if not compressor.keeps_residual or len(members) == 1:
            continue
        owed = [name for name in flat.names if name in residuals]
        if owed:
            compressor.feedback.residuals[place] = _residual(
                flat, residuals, replica=members.index(rank), replicas=len(members)
            )
        for label, factor in state.get("factors", {}).items():
            name, elements, start = label.rsplit(" ", 2)
            rank_then = min(compressor.compression.rank, len(factor))
            if (name, int(elements), factor.shape[1]) == (flat.names[0], flat.layout.used, rank_then):
                compressor.factors[*place, int(start)] = factor.to(flat.flat.device, copy=True)


def _buffers(weights: RankWeights) -> Iterator[tuple[Place, FlatGradients]]:
    for number, group in sorted(weights.groups.items()):
        for index, flat in enumerate(group.flats):
            yield (number, index), flat


def _factor_name(flat: FlatGradients, start: int) -> str:
    return f"{flat.names[0]} {flat.layout.used} {start}"


def _residual(flat: FlatGradients, residuals: Mapping[str, Tensor], *, replica: int, replicas: int) -> Tensor:
    """This replica's residual of a whole buffer; zero where a parameter has none."""
    dtype = torch.float64 if flat.flat.dtype == torch.float64 else torch.float32
    whole = torch.zeros(flat.layout.used, dtype=dtype, device=flat.flat.device)
    for name, view in zip(flat.names, flat.layout.views(whole), strict=True):
        if name not in residuals:
            continue
        saved = residuals[name]
        if saved.shape[1:] != view.shape:
            raise CheckpointError(
                f"the residual of {name} has shape {list(saved.shape[1:])}, the parameter "
                f"{list(view.shape)}: is it of this model?"
            )
        view.copy_(saved[replica] if len(saved) == replicas else saved.sum(0) / replicas)
    return whole
