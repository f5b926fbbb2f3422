"""Are all replicas of a stage equal, and what is the state of the whole model?

Replicas start equal because each takes the weights of its stage's first one, whatever random numbers made it.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from executor.errors import CheckpointError, ConfigurationError, ExecutorError
from executor.weights.collecting import Everywhere, collect
from executor.weights.groups import ParameterGroups
from executor.weights.holdings import HeldStage, RankWeights, TiedGroups, tied_here

Named = list[tuple[str, Tensor]]


@torch.no_grad()
def equalise(held: Sequence[HeldStage], *, groups: ParameterGroups, tied: TiedGroups = ()) -> None:
    """Give every replica the parameters and buffers of its stage's first, and tied copies those of theirs.

    Raises ConfigurationError on all members where replicas differ in names, shapes or dtypes.
    """
    for number, (name, copies) in sorted(_copies(held, groups=groups, tied=tied).items()):
        process_group = groups.process_group(number)
        _refuse_different(name, copies, groups=groups, number=number)
        first, *others = copies
        for position, (_, tensor) in enumerate(first):
            if process_group is not None:
                sent = tensor.detach().contiguous()
                dist.broadcast(sent, groups.firsts[number], group=process_group)
                if sent.data_ptr() != tensor.data_ptr():
                    tensor.copy_(sent)
            for other in others:
                other[position][1].copy_(tensor)


def check_replicas(held: Sequence[HeldStage], *, groups: ParameterGroups, tied: TiedGroups = ()) -> None:
    """Raises ExecutorError on all members where copies of a parameter group are not equal bit by bit."""
    for number, (name, copies) in sorted(_copies(held, groups=groups, tied=tied).items()):
        digests = _gather([_digest(_contents(copy)) for copy in copies], groups=groups, number=number)
        expected = set(digests[groups.firsts[number]])
        different = [rank for rank, digest in digests.items() if set(digest) != expected]
        if different:
            raise ExecutorError(
                f"the copies of {name} on processes {groups.members[number]} differ, first on "
                f"{different[0]}: were weights changed by hand, or gradients outside the pipeline?"
            )


def full_state(
    weights: RankWeights, groups: ParameterGroups, *, rank: int, to: int | Everywhere = 0
) -> dict[str, Tensor]:
    """The state dict of the whole model on the CPU of process `to`, or of all; empty elsewhere.

    Every key of every layer once, `layers.<i>.<name>`, as one process has it; tied ones under each name.
    """
    mine: dict[str, Tensor] = {}
    stages = {one.stage for one in weights.held if groups.firsts[one.stage] == rank}
    for one in weights.held:
        if one.stage in stages and one.pipe == weights.first_pipe[one.stage]:
            mine |= {one.name(key): value.detach() for key, value in one.layers.state_dict().items()}
    found = collect(mine, to=to)
    return dict(sorted(found.items(), key=_layer_first))


@torch.no_grad()
def load_full_state(weights: RankWeights, state: Mapping[str, Tensor]) -> None:
    """Take this rank's part of a whole model's state; raises CheckpointError before anything is changed."""
    targets = [
        (one.name(key), value)
        for one in weights.held
        for key, value in one.layers.state_dict(keep_vars=True).items()
    ]
    for name, target in targets:
        if name not in state:
            raise CheckpointError(
                f"the state has no {name}, which has shape {list(target.shape)}: is it of this model?"
            )
        if state[name].shape != target.shape:
            raise CheckpointError(
                f"{name} has shape {list(state[name].shape)} in the state and {list(target.shape)} in the "
                "model: is it of this model?"
            )
    for name, target in targets:
        target.copy_(state[name])
    for group in weights.groups.values():
        group.set_masters(state)


def _copies(
    held: Sequence[HeldStage], *, groups: ParameterGroups, tied: TiedGroups
) -> dict[int, tuple[str, list[Named]]]:
    """What to call each group, and its copies on this rank, without the tied parameters of a stage."""
    ends = tied_here(held, tied)
    shared = {id(leaf) for _, leaves in ends.values() for leaf in leaves}
    found: dict[int, tuple[str, list[Named]]] = {}
    for one in sorted(held, key=lambda one: (one.stage, one.pipe)):
        tensors = [(name, tensor) for name, tensor in _tensors(one) if id(tensor) not in shared]
        found.setdefault(one.stage, (f"stage {one.stage}", []))[1].append(tensors)
    for number, (name, leaves) in ends.items():
        found[groups.stages + number] = (f"tied {name}", [[(name, leaf)] for leaf in leaves])
    return found


def _tensors(one: HeldStage) -> Iterator[tuple[str, Tensor]]:
    yield from one.parameters()
    yield from one.buffers()


def _refuse_different(name: str, copies: list[Named], *, groups: ParameterGroups, number: int) -> None:
    kinds = [_digest(f"{key} {tuple(t.shape)} {t.dtype}".encode() for key, t in copy) for copy in copies]
    found = _gather(kinds, groups=groups, number=number)
    if len(set().union(*found.values())) > 1:
        mine = ", ".join(f"{key} {list(tensor.shape)} {tensor.dtype}" for key, tensor in copies[0][:3])
        raise ConfigurationError(
            f"the copies of {name} on processes {groups.members[number]} have different names, shapes or "
            f"dtypes (here {mine}, ...): build the same layers on every process"
        )


def _contents(copy: Named) -> Iterator[bytes]:
    for _, tensor in copy:
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        yield flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def _digest(parts: Iterator[bytes]) -> int:
    """63 bits of a SHA-256."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return int.from_bytes(digest.digest()[:8], "big") >> 1


def _gather(numbers: Sequence[int], *, groups: ParameterGroups, number: int) -> dict[int, list[int]]:
    """The numbers of every member of a group."""
    members = groups.members[number]
    process_group = groups.process_group(number)
    if process_group is None:
        return {members[0]: list(numbers)}
    answers: list[list[int]] = [[] for _ in members]
    dist.all_gather_object(answers, list(numbers), group=process_group)
    return dict(zip(members, answers, strict=True))


def _layer_first(item: tuple[str, Tensor]) -> int:
    return int(item[0].split(".")[1])
