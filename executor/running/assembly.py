"""What does one rank hold and need, so that it can run the programs of a configuration?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.distributed as dist
from torch import nn

from executor.compression.averaging import WeightAverage
from executor.compression.refusal import refuse_compression
from executor.compression.wire import Wire
from executor.errors import ConfigurationError
from executor.models.loss import Loss
from executor.running.bucketing import MOST_BYTES, agreed_buckets
from executor.running.group_channels import control_group, transfer_group, upward_group
from executor.running.layout import Layout, RankOrder, cut_layers
from executor.running.programs import lowered
from executor.running.sharing import refuse_unsaid
from executor.stages.stage import Stage
from executor.stages.versioning import VersionedStage, weights_of
from executor.transport import Backend
from executor.weights.groups import ParameterGroups
from executor.weights.holdings import HeldStage, RankWeights, groups_of
from executor.weights.precision import Numerics, Precision
from executor.weights.replicas import equalise
from executor.weights.running_statistics import RunningStatistics
from executor.weights.steps import OptimizerFactory
from executor.weights.synchronization import Synchronizer
from tuner.compression import Compression, read_compression
from tuner.configuration import Configuration
from tuner.schedules.generators import find_recipe, program_of
from tuner.schedules.program import Program
from tuner.schedules.updates import SyncPolicy

Place = tuple[int, int]
"""(pipe, stage)"""

Tied = Sequence[Sequence[tuple[int, str]]]
"""(layer, name within it) of the parameters that are one, for each tied group."""


@dataclass(frozen=True)
class Settings:
    """How a configuration is run; all but compression leaves the weights of a synchronous schedule."""

    partition: tuple[int, ...] | None = None
    """Layers of each stage; cut evenly unless given."""
    tied: Tied = ()
    precision: Precision = "float32"
    """bfloat16 and float16 run mixed, with float32 master weights."""
    gradient_precision: Literal["float32", "same"] = "float32"
    optimizer_sharding: Literal["none", "replicas"] = "none"
    sync_policy: SyncPolicy = "eager_opt"
    buckets: int = 1
    """Collectives of each stage's gradients, at least."""
    bucket_bytes: int | None = MOST_BYTES
    """Largest of them; more are made where a stage needs them. None keeps to `buckets`."""
    compression: str = "none"
    """Of the gradients that replicas exchange: fp16, bf16, topk, gaussiank, qsgd, a2sgd or powersgd, of which
    some take a value, as in `topk:0.001` (docs/compression.md)."""
    link_bytes_per_s: float | None = None
    """Have the collectives of gradients take as long as on so slow a link; None for as long as they take."""
    clip_norm: float | None = None
    """Largest norm of the gradient of the whole model."""
    seed: int = 0
    """Of the random numbers that layers draw."""
    rank_order: RankOrder = "pipe_major"
    device: str = "cpu"
    pipemare_annealing_steps: int = 0
    """Steps over which PipeMare raises the learning rates of early stages to the full one (T1)."""
    pipemare_warm_up_steps: int = 0
    """Steps that PipeMare runs synchronously at first (T3)."""


class Assembly:
    """The stages, weights and process groups of one rank; every process makes one, in the same order."""

    def __init__(
        self,
        layers: Sequence[nn.Module],
        loss: Loss,
        configuration: Configuration,
        *,
        optimizer: OptimizerFactory,
        settings: Settings,
    ) -> None:
        _refuse_no_processes()
        compression = read_compression(settings.compression)
        refuse_compression(compression, configuration, sharding=settings.optimizer_sharding)
        self.configuration = configuration
        self.settings = settings
        self.loss = loss
        self.number = dist.get_rank()
        self.layout = Layout.of_process(
            configuration, self.number, processes=dist.get_world_size(), order=settings.rank_order
        )
        self.device = torch.device(settings.device)
        self.cuts = cut_layers(len(layers), configuration.stages, settings.partition)
        refuse_unsaid(layers, self.cuts, settings.tied)
        self._tied = self._place(settings.tied)
        self.buckets = settings.buckets
        """Collectives of each stage's gradients."""
        self.program = self.make_program()
        """Of one iteration."""
        ranks = self.layout.groups
        self.control = control_group(ranks, own=self.layout.group)
        """Of this pipeline group, over gloo: shapes."""
        self.transfers = transfer_group(ranks, own=self.layout.group) if self.backend == "nccl" else None
        """Of this pipeline group, over NCCL: activations and gradients; None for the default group."""
        self.upward = upward_group(ranks, own=self.layout.group) if self.backend == "gloo" else None
        """Of this pipeline group, over gloo: what goes to ranks of lower numbers; None for `transfers`."""
        self.groups = ParameterGroups(self.program.placement, ranks=ranks, tied=groups_of(self._tied))
        held = [self._hold(layers, *place) for place in self._places()]
        self.held = tuple(held)
        equalise(held, groups=self.groups, tied=self._tied)
        self.weights = self._weights(optimizer)
        self.synchronizer = self._synchronizer(compression)
        self.average = WeightAverage(
            self.weights, self.groups, wire=self.synchronizer.wire, every=compression.average_every
        )
        replicas = configuration.width * self.program.pipes
        self.statistics = RunningStatistics(held, groups=self.groups, replicas=replicas)
        self.versioned: dict[Place, VersionedStage] = {}
        self.stages = {(one.pipe, one.stage): self._stage(one) for one in held}

    @property
    def backend(self) -> Backend:
        """What carries messages."""
        on_cuda = self.device.type == "cuda"
        return "nccl" if on_cuda and "nccl" in dist.get_backend_config() else "gloo"

    def make_program(self, iterations: int = 1) -> Program:
        """The lowered program of this configuration; raises ScheduleError where it cannot run that way."""
        settings = self.settings
        return lowered(
            program_of(self.configuration, iterations=iterations),
            policy=settings.sync_policy,
            buckets=self.buckets,
            sharded=settings.optimizer_sharding == "replicas",
            tied=groups_of(self._tied),
            ordered=self.backend == "nccl",
        )

    def close(self) -> None:
        """Let go of the process groups, when all processes have come here."""
        dist.barrier()
        self.groups.close()
        for group in (self.control, self.transfers):
            if group is not None:
                dist.destroy_process_group(group)
        self.control = self.transfers = None

    def _weights(self, optimizer: OptimizerFactory) -> RankWeights:
        """Of the stages of this rank, in as many buckets as the largest stage of all needs."""
        settings = self.settings
        numerics = Numerics(settings.precision, settings.gradient_precision)
        buckets = agreed_buckets(
            (one.layers for one in self.held),
            numerics=numerics,
            at_least=settings.buckets,
            most_bytes=settings.bucket_bytes,
            group=self.control,
        )
        if buckets != self.buckets:
            self.buckets = buckets
            self.program = self.make_program()
        return RankWeights(
            self.held,
            rank=self.number,
            groups=self.groups,
            optimizer=optimizer,
            numerics=numerics,
            buckets=buckets,
            sharded=settings.optimizer_sharding == "replicas",
            tied=self._tied,
        )

    def _synchronizer(self, compression: Compression) -> Synchronizer:
        return Synchronizer(
            self.weights,
            self.groups,
            compression=compression,
            wire=Wire(bytes_per_s=self.settings.link_bytes_per_s),
            rank=self.number,
            seed=self.settings.seed,
        )

    def _places(self) -> list[Place]:
        """The stages of this rank."""
        pipes, stages = (self.program.placement == self.layout.rank).nonzero()
        return [(int(pipe), int(stage)) for pipe, stage in zip(pipes, stages, strict=True)]

    def _place(self, tied: Tied) -> Tied:
        """(stage, name in the whole model) of each tied group."""
        return [
            [(self._stage_of(layer), f"layers.{layer}.{name}") for layer, name in group] for group in tied
        ]

    def _stage_of(self, layer: int) -> int:
        for stage, layers in enumerate(self.cuts):
            if layer in layers:
                return stage
        raise ConfigurationError(
            f"there is no layer {layer} to tie: the model has layers 0 to {self.cuts[-1].stop - 1}"
        )

    def _hold(self, layers: Sequence[nn.Module], pipe: int, stage: int) -> HeldStage:
        numbers = self.cuts[stage]
        modules = nn.ModuleList([layers[number] for number in numbers])
        if self.settings.precision == "float64":
            modules.to(torch.float64)
        return HeldStage(pipe, stage, modules.to(self.device).train(), numbers.start)

    def _stage(self, held: HeldStage) -> Stage:
        recipe = find_recipe(self.configuration.schedule)
        modules = list(held.layers)
        weights = weights_of(
            self.configuration,
            modules,
            stage=held.stage,
            annealing_steps=self.settings.pipemare_annealing_steps,
            warm_up_steps=self.settings.pipemare_warm_up_steps,
        )
        if weights is not None:
            self.versioned[held.pipe, held.stage] = VersionedStage(weights, self.weights, held)
        return Stage(
            modules,
            first_layer=held.first_layer,
            recompute=self.configuration.recompute,
            seed=self.settings.seed,
            loss=self.loss if held.stage == self.configuration.stages - 1 else None,
            weights=weights,
            cut_at_layers=recipe.splits_backward,
        )


def _refuse_no_processes() -> None:
    if not dist.is_initialized():
        raise ConfigurationError(
            "there is no process group: start one process for each rank (torchrun --nproc-per-node) "
            "and call torch.distributed.init_process_group first"
        )
