"""How does a rank train by hand, in its program's placement and with the real collectives?

The runtime is not needed for what weights, gradients and optimizers must do: every rank computes the
gradients of its replicas on its own share of the mini-batch, then runs the SYNC and UPDATE operations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
import torch.distributed as dist
from torch import Tensor, nn

from executor.weights.groups import ParameterGroups
from executor.weights.holdings import HeldStage, RankWeights, TiedGroups, groups_of
from executor.weights.precision import Numerics
from executor.weights.replicas import equalise
from executor.weights.running_statistics import RunningStatistics
from executor.weights.steps import OptimizerFactory
from executor.weights.synchronization import Synchronizer
from executor.weights.updating import Updater
from tuner.schedules.generators import generate
from tuner.schedules.lowering import Lowering, lower
from tuner.schedules.program import Kind, Op, Program
from tuner.schedules.updates import Synchronization

WIDTH = 6
SAMPLES = 48


def layers(count: int = 8, *, dtype: torch.dtype = torch.float64, seed: int = 0) -> list[nn.Module]:
    """`count` layers [samples, 6] -> [samples, 6], the same for a seed."""
    torch.manual_seed(seed)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH, dtype=dtype), nn.Tanh()) for _ in range(count)]


def batch(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Inputs and targets of one mini-batch."""
    generator = torch.Generator().manual_seed(7)
    inputs = torch.randn(2, SAMPLES, WIDTH, dtype=torch.float64, generator=generator).to(dtype)
    return inputs[0], inputs[1]


def sgd(parameters: object) -> torch.optim.Optimizer:
    """Plain SGD."""
    return torch.optim.SGD(parameters, lr=0.1)  # type: ignore[arg-type]


def momentum(parameters: object) -> torch.optim.Optimizer:
    """SGD with momentum and weight decay."""
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01)  # type: ignore[arg-type]


def adam(parameters: object) -> torch.optim.Optimizer:
    """Adam."""
    return torch.optim.Adam(parameters, lr=0.01)  # type: ignore[arg-type]


def adamw(parameters: object) -> torch.optim.Optimizer:
    """AdamW, in which matrices decay and vectors do not."""
    every = list(parameters)  # type: ignore[call-overload]
    groups = [
        {"params": [one for one in every if one.ndim > 1], "weight_decay": 0.1},
        {"params": [one for one in every if one.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=0.01)


@dataclass(frozen=True)
class Case:
    """One way to lay a training out."""

    schedule: str = "chimera"
    depth: int = 4
    width: int = 1
    pipe_pairs: int = 1
    chunks: int | None = None
    micro_batches: int = 4
    optimizer: OptimizerFactory = sgd
    how: Synchronization = field(default_factory=Synchronization)
    numerics: Numerics = field(default_factory=Numerics)
    max_norm: float | None = None
    tied: TiedGroups = ()
    """Numbered by layer; the stages are filled in."""
    make: Callable[[], Sequence[nn.Module]] = layers

    @property
    def world_size(self) -> int:
        """Processes."""
        return self.width * self.depth

    def program(self) -> Program:
        """Lowered, with this case's collectives."""
        compute = generate(
            self.schedule,
            depth=self.depth,
            micro_batches=self.micro_batches,
            pipe_pairs=self.pipe_pairs,
            chunks=self.chunks,
        )
        how = replace(self.how, tied=groups_of(self.tied_groups(compute)))
        return lower(compute, Lowering(synchronization=how))

    def tied_groups(self, program: Program) -> TiedGroups:
        """The tied names with the stages that hold them."""
        starts = self.cuts(program)
        return [[(_stage_of(name, starts), name) for _, name in members] for members in self.tied]

    def cuts(self, program: Program) -> list[int]:
        """First layer of every stage, and the number of layers."""
        count = len(self.make())
        return [stage * count // program.stages for stage in range(program.stages + 1)]


def _stage_of(name: str, starts: Sequence[int]) -> int:
    layer = int(name.split(".")[1])
    return max(stage for stage, start in enumerate(starts[:-1]) if start <= layer)


class Training:
    """One rank of a case."""

    def __init__(self, case: Case, rank: int, *, world_size: int = 1) -> None:
        program = case.program()
        self.case, self.program, self.rank = case, program, rank
        mapping = [[w * case.depth + r for r in range(case.depth)] for w in range(case.width)]
        self.program_rank = rank % case.depth
        self.replica = rank // case.depth
        tied = case.tied_groups(program)
        self.groups = ParameterGroups(program.placement, ranks=mapping, tied=groups_of(tied))
        starts = case.cuts(program)
        self.held = []
        for pipe, stage in zip(*(program.placement == self.program_rank).nonzero(), strict=True):
            chosen = list(case.make())[starts[stage] : starts[stage + 1]]
            self.held.append(HeldStage(int(pipe), int(stage), nn.ModuleList(chosen), starts[stage]))
        equalise(self.held, groups=self.groups, tied=tied)
        self.tied = tied
        self.weights = RankWeights(
            self.held,
            rank=rank,
            groups=self.groups,
            optimizer=case.optimizer,
            numerics=case.numerics,
            buckets=case.how.buckets,
            sharded=case.how.sharded,
            tied=tied,
        )
        self.synchronizer = Synchronizer(self.weights, self.groups)
        self.updater = Updater(
            self.weights,
            self.synchronizer,
            groups=self.groups,
            rank=rank,
            program=program,
            max_norm=case.max_norm,
        )
        replicas = case.width * program.pipes
        self.statistics = RunningStatistics(self.held, groups=self.groups, replicas=replicas)

    def step(self) -> None:
        """One iteration: every replica's share of the gradients, then the SYNC and UPDATE operations."""
        self.weights.zero()
        self.backward()
        for op in self.ops():
            if op.kind == Kind.SYNC:
                self.synchronizer.start(op)
            else:
                self.updater.settle(op)
                self.updater.update(op)
        self.updater.finish()
        self.statistics.merge()

    def ops(self) -> list[Op]:
        """SYNC and UPDATE operations of this rank."""
        steps = self.program.ranks[self.program_rank]
        return [op for step in steps for op in step if op.kind in {Kind.SYNC, Kind.UPDATE}]

    def backward(self) -> None:
        """Add this rank's share: each replica of a stage takes its own samples, other stages are copies.

        Those are exchanged beforehand, as activations would be.
        """
        whole = self.exchange_weights()
        inputs, targets = batch(next(whole[0].parameters()).dtype)
        replicas = self.case.width * self.program.pipes
        for one in self.held:
            number = self.replica * self.program.pipes + one.pipe
            mine = slice(number * SAMPLES // replicas, (number + 1) * SAMPLES // replicas)
            model = list(whole)
            model[one.first_layer : one.first_layer + len(one.layers)] = list(one.layers)
            loss = mean_loss(model, inputs[mine], targets[mine])
            share = (mine.stop - mine.start) / SAMPLES
            chosen = [parameter for parameter in one.layers.parameters() if parameter.requires_grad]
            if chosen:
                torch.autograd.backward(loss * share * self.updater.loss_factor, inputs=chosen)

    def exchange_weights(self) -> list[nn.Module]:
        """The whole model with the present weights of every stage's first replica."""
        mine = {
            one.stage: [layer.state_dict() for layer in one.layers]
            for one in self.held
            if self.groups.firsts[one.stage] == self.rank
        }
        everyone: list[dict[int, list[dict[str, Tensor]]]] = [mine]
        if self.case.world_size > 1:
            everyone = [{} for _ in range(self.case.world_size)]
            dist.all_gather_object(everyone, mine)
        stages = {stage: states for part in everyone for stage, states in part.items()}
        whole = list(self.case.make())
        states = [state for stage in sorted(stages) for state in stages[stage]]
        for layer, state in zip(whole, states, strict=True):
            layer.to(next(iter(state.values())).dtype if state else None)
            layer.load_state_dict(state)
        return whole

    def named(self) -> dict[str, Tensor]:
        """Weights of every replica on this rank, as `pipe:name`."""
        return {
            f"{one.pipe}:{name}": parameter.detach().clone()
            for one in self.held
            for name, parameter in one.parameters()
        }


def mean_loss(model: Sequence[nn.Module], inputs: Tensor, targets: Tensor) -> Tensor:
    """MSE over the samples."""
    value = inputs
    for layer in model:
        value = layer(value)
    return nn.functional.mse_loss(value.to(targets.dtype), targets)


def train(rank: int, world_size: int, case: Case, steps: int) -> dict[str, Tensor]:
    """Weights of this rank's replicas after some steps."""
    training = Training(case, rank, world_size=world_size)
    for _ in range(steps):
        training.step()
    return training.named()


def reference(case: Case, steps: int) -> dict[str, Tensor]:
    """The same in one process on the full mini-batch, with torch alone."""
    model = nn.ModuleList(case.make())
    names = dict(model.named_parameters())
    for members in case.tied:
        first = names[members[0][1].removeprefix("layers.")]
        for _, name in members[1:]:
            path, _, leaf = name.removeprefix("layers.").rpartition(".")
            setattr(model.get_submodule(path), leaf, first)
    chosen = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = case.optimizer(chosen)
    inputs, targets = batch(chosen[0].dtype)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.autograd.backward(mean_loss(list(model), inputs, targets))
        if case.max_norm is not None:
            torch.nn.utils.clip_grad_norm_(chosen, case.max_norm)
        optimizer.step()
    return {
        f"layers.{name}": parameter.detach()
        for name, parameter in model.named_parameters(remove_duplicate=False)
    }
