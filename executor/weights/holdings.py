"""Which parameters does this rank hold, group by group?

Names are those of the whole model, `layers.<i>.<name>`, on every rank and in every layout.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from executor.errors import ConfigurationError
from executor.weights.gradients import Leaves
from executor.weights.groups import ParameterGroups
from executor.weights.precision import DTYPES, Numerics
from executor.weights.shards import Shard
from executor.weights.state import GroupState
from executor.weights.steps import OptimizerFactory

TiedGroups = Sequence[Sequence[tuple[int, str]]]
"""(stage, name in the whole model) of the parameters that are one, for each tied group."""


@dataclass(frozen=True)
class HeldStage:
    """One replica of a stage on this rank: the layers from `first_layer` on."""

    pipe: int
    stage: int
    layers: nn.ModuleList
    first_layer: int

    def name(self, local: str) -> str:
        """`<j>.<rest>` of the stage's layers as `layers.<first + j>.<rest>`."""
        number, _, rest = local.partition(".")
        return f"layers.{self.first_layer + int(number)}.{rest}"

    def parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Every name, also where one parameter has several."""
        for local, parameter in self.layers.named_parameters(remove_duplicate=False):
            yield self.name(local), parameter

    def buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Every name."""
        for local, buffer in self.layers.named_buffers(remove_duplicate=False):
            yield self.name(local), buffer


class RankWeights:
    """Weights, gradients and optimizers of all parameter groups on this rank, by number."""

    def __init__(
        self,
        held: Sequence[HeldStage],
        *,
        rank: int,
        groups: ParameterGroups,
        optimizer: OptimizerFactory,
        numerics: Numerics | None = None,
        buckets: int = 1,
        sharded: bool = False,
        tied: TiedGroups = (),
    ) -> None:
        """`rank` is the global one. A mixed run's layers are cast here; equalise replicas before."""
        self.held = tuple(held)
        self.numerics = numerics or Numerics()
        self.first_pipe = {
            stage: min(one.pipe for one in held if one.stage == stage)
            for stage in sorted({one.stage for one in held})
        }
        """The pipe whose operations speak for all replicas of a stage on this rank."""
        self.tied = tied_here(held, tied)
        originals = self._cast()
        self.groups: dict[int, GroupState] = {}
        for number, leaves in self._leaves(groups.stages).items():
            members = groups.members[number]
            scattered = sharded and number < groups.stages and len(members) > 1
            self.groups[number] = GroupState(
                leaves,
                optimizer=optimizer,
                numerics=self.numerics,
                buckets=buckets,
                shard=Shard(members.index(rank), len(members)) if scattered else None,
            )
            self.groups[number].set_masters(originals)

    def zero(self) -> None:
        """Forget all gradients: before an iteration."""
        for state in self.groups.values():
            state.zero()

    def gradients(self) -> dict[str, Tensor]:
        """Of this rank's parameters, by name; views, each tied group under its first name."""
        return {name: view for state in self.groups.values() for name, view in state.gradients().items()}

    def _cast(self) -> dict[str, Tensor]:
        """Make a mixed run's layers low-precision; their weights in float32 as they were."""
        if not self.numerics.mixed:
            return {}
        dtype = DTYPES[self.numerics.precision]
        originals = {
            name: parameter.detach().to(torch.float32, copy=True)
            for one in self.held
            for name, parameter in one.parameters()
            if parameter.dtype != dtype
        }
        for one in self.held:
            one.layers.to(dtype)
        return originals

    def _leaves(self, stages: int) -> dict[int, dict[str, Leaves]]:
        """Copies of each trained parameter, for every group of which the rank holds something."""
        groups: dict[int, dict[str, dict[int, nn.Parameter]]] = defaultdict(lambda: defaultdict(dict))
        shared = {id(leaf) for _, copies in self.tied.values() for leaf in copies}
        for number, (name, copies) in self.tied.items():
            group = groups[stages + number]
            for leaf in copies if copies[0].requires_grad else ():
                group[name][id(leaf)] = leaf
        for one in sorted(self.held, key=lambda one: (one.stage, one.pipe)):
            group = groups[one.stage]
            seen: set[int] = set()
            for name, leaf in one.parameters():
                if leaf.requires_grad and id(leaf) not in shared | seen:
                    seen.add(id(leaf))
                    group[name][id(leaf)] = leaf
        return {
            number: {name: tuple(copies.values()) for name, copies in named.items()}
            for number, named in sorted(groups.items())
        }


def tied_here(held: Sequence[HeldStage], tied: TiedGroups) -> dict[int, tuple[str, list[nn.Parameter]]]:
    """For each tied group with members on this rank its first name in the model, and the copies.

    Raises ConfigurationError where the members differ in shape, dtype or in being trained.
    """
    found: dict[int, tuple[str, list[nn.Parameter]]] = {}
    for number, members in enumerate(tied):
        copies: dict[int, nn.Parameter] = {}
        for one in held:
            parameters = dict(one.parameters())
            for stage, name in members:
                if stage != one.stage:
                    continue
                if name not in parameters:
                    raise ConfigurationError(
                        f"tied group {number} names {name} in stage {stage}, which has no such parameter: it "
                        f"has {', '.join(list(parameters)[:4])}, ..."
                    )
                copies[id(parameters[name])] = parameters[name]
        if copies:
            found[number] = (min(members, key=_position)[1], list(copies.values()))
            _refuse_unlike(number, members, copies=found[number][1])
    return found


def _refuse_unlike(number: int, members: Sequence[tuple[int, str]], *, copies: list[nn.Parameter]) -> None:
    kinds = {(tuple(leaf.shape), leaf.dtype, leaf.requires_grad) for leaf in copies}
    if len(kinds) > 1:
        names = " and ".join(name for _, name in members)
        raise ConfigurationError(
            f"{names} are tied (group {number}), but differ in shape, dtype or requires_grad: "
            f"{sorted(map(str, kinds))}. Make them alike, or do not tie them"
        )


def _position(member: tuple[int, str]) -> tuple[int, int, str]:
    stage, name = member
    return stage, int(name.split(".")[1]), name


def groups_of(tied: TiedGroups) -> tuple[tuple[int, ...], ...]:
    """The stages of each tied group: what `Synchronization` and `ParameterGroups` take as `tied`."""
    return tuple(tuple(sorted({stage for stage, _ in members})) for members in tied)
