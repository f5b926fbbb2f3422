"""What does one rank of a trial run that trains a model? Real layers on synthetic samples."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from executor.crossover.turns import Turns
from executor.launchers.rank_process import Rank
from executor.models.sources import Model, open_model
from executor.running.assembly import Assembly, Settings
from executor.running.checking import compare, worst
from executor.running.layout import Layout, cut_layers
from executor.running.programs import backward_parts
from executor.running.recording import Recording, count_events
from executor.running.reference import Learnt, learn
from executor.running.training import Training
from executor.trials.first_use import load_lazily_loaded
from executor.trials.iterations import time_iterations
from executor.trials.prepared_trial import PreparedTrial, prepare
from executor.trials.resolution import refuse_other_ties
from executor.trials.trial_request import TrialRequest, read_trial
from executor.trials.watched import WatchedRecording, event_operations
from executor.values import Batch
from executor.weights.holdings import RankWeights

CHECKED_STEPS = 2

OPTIMIZERS: dict[str, Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.01),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-3),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
}


class HeldLayers(Sequence[nn.Module]):
    """The layers of a model of which a rank has made its own alone."""

    def __init__(self, model: Model, numbers: Iterable[int], *, device: str) -> None:
        wanted = sorted(set(numbers))
        self._count = len(model)
        self._made = dict(zip(wanted, model.build(wanted, device=device), strict=True))

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: Any) -> Any:
        """The layer of that number; only of those that were made."""
        return self._made[number]


def run(spec: Mapping[str, Any], rank: Rank) -> dict[str, Any]:
    """Check if asked, then time the iterations of the request: the fields of a RankResult."""
    return measure(prepare(read_trial(dict(spec))), rank)


def measure(prepared: PreparedTrial, rank: Rank, turns: Turns | None = None) -> dict[str, Any]:
    """Check if asked, then time its iterations, with `turns` in turn with other jobs.

    In turns the weights are told by their digest as well.
    """
    request = prepared.request
    rank.progress.doing("connecting")
    dist.init_process_group(_backend(request, rank), timeout=timedelta(seconds=request.timeout_s))
    rank.progress.doing("building the model")
    model = open_model(
        request.model or "",
        sequence_length=request.sequence_length,
        precision="float64" if request.precision == "float64" else "float32",
        seed=request.seed,
    )
    load_lazily_loaded(OPTIMIZERS[request.optimizer])
    rank.memory.begin()
    check = _check(prepared, model, rank) if request.check else None
    rank.memory.free()
    rank.progress.doing("building the stages")
    recording = Recording(count_events(prepared.program, _layout(prepared, rank).rank))
    training = training_of(prepared, model, rank, recording=recording, turns=turns)
    batches = batches_of(model, request, request.warm_up + request.iterations)
    whole = not prepared.program.synchronous
    rank.progress.doing("running iterations")
    measured = time_iterations(
        lambda number: _run(training, batches if whole else [batches[number]], turns),
        recording,
        iterations=1 if whole else request.iterations,
        warm_up=0 if whole else request.warm_up,
        settled=rank.memory.restart,
        together=turns is None,
    )
    result = measured.document() | {"memory": rank.memory.read().document(), "check": check}
    return result if turns is None else result | {"weights_digest": weights_digest(training.weights)}


def layer_counts(model: Model, stages: int, blocks: Sequence[int] | None = None) -> tuple[int, ...]:
    """Layers of every stage: `blocks` of each, evenly cut unless given, and what stands before and behind."""
    ends = 2 if model.has_ends else 0
    counts = [len(layers) for layers in cut_layers(len(model) - ends, stages, blocks)]
    counts[0] += ends // 2
    counts[-1] += ends // 2
    return tuple(counts)


def weights_digest(weights: RankWeights) -> str:
    """SHA-256 of the bits of all parameters and buffers that a rank holds."""
    digest = hashlib.sha256()
    for stage in weights.held:
        for name, tensor in [*stage.parameters(), *stage.buffers()]:
            digest.update(f"{stage.pipe} {name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _run(training: Training, batches: Sequence[Batch], turns: Turns | None) -> None:
    if turns is not None:
        turns.begin()
    training.run(batches)
    if training.on_cuda:
        torch.cuda.synchronize()


def _backend(request: TrialRequest, rank: Rank) -> str:
    """NCCL where every rank has a device of its own."""
    if request.device == "cuda" and rank.has_own_device:
        return "cpu:gloo,cuda:nccl"
    return "gloo"


def _layout(prepared: PreparedTrial, rank: Rank) -> Layout:
    return Layout.of_process(prepared.configuration, rank.rank, processes=rank.ranks)


def training_of(
    prepared: PreparedTrial,
    model: Model,
    rank: Rank,
    *,
    recording: Recording | None = None,
    turns: Turns | None = None,
) -> Training:
    """The assembled pipeline; its times go to `recording`, its progress to the watchdog."""
    request, program, layout = prepared.request, prepared.program, _layout(prepared, rank)
    counts = layer_counts(model, program.stages, request.partition)
    cuts = cut_layers(len(model), program.stages, counts)
    stage_of = {layer: stage for stage, layers in enumerate(cuts) for layer in layers}
    tied = tuple(tuple(sorted({stage_of[layer] for layer, _ in group})) for group in model.tied)
    refuse_other_ties(request, tied)
    own = [number for stage in (program.placement == layout.rank).nonzero()[1] for number in cuts[int(stage)]]
    assembly = Assembly(
        HeldLayers(model, own, device=rank.device),
        model.loss,
        prepared.configuration,
        optimizer=OPTIMIZERS[request.optimizer],
        settings=Settings(
            partition=counts,
            tied=tuple(tuple(group) for group in model.tied),
            precision=request.precision,
            optimizer_sharding=request.optimizer_sharding,
            compression=request.compression,
            sync_policy=request.sync_policy,
            buckets=request.buckets,
            bucket_bytes=None,
            seed=request.seed,
            device=rank.device,
        ),
    )
    ops = event_operations(program, layout.rank)
    kept = recording or Recording(len(ops))
    watched = WatchedRecording(kept, rank.progress, ops=ops)
    return Training(assembly, watched, around=turns.around if turns else None)


def batches_of(model: Model, request: TrialRequest, count: int) -> list[Batch]:
    samples = request.micro_batch_size * request.micro_batches * request.width
    return [model.batch(samples, seed=request.seed + number) for number in range(count)]


def _check(prepared: PreparedTrial, model: Model, rank: Rank) -> dict[str, Any]:
    """Train some steps from the start, here and on the first rank alone, and compare."""
    request = prepared.request
    rank.progress.doing("training in one process, to compare with")
    batches = batches_of(model, request, CHECKED_STEPS)
    box: list[Learnt | None] = [_learnt(prepared, model, batches) if rank.rank == 0 else None]
    dist.broadcast_object_list(box)
    rank.progress.doing("training in the pipeline, to compare")
    training = training_of(prepared, model, rank)
    losses = [loss for each in training.rounds(batches) for loss in training.losses(training.run(each))]
    factor = training.updater.factor if request.optimizer_sharding == "none" else None
    learnt = box[0] or Learnt()
    check = worst(compare(training.weights, losses, learnt, gradient_factor=factor))
    training.close()  # its connections would wake their threads while iterations are timed
    return asdict(check) | {"passed": check.passes(request.precision), "steps": CHECKED_STEPS}


def _learnt(prepared: PreparedTrial, model: Model, batches: Sequence[Batch]) -> Learnt:
    request, layers = prepared.request, model.build()
    model.share(layers)
    return learn(
        layers,
        model.loss,
        batches,
        optimizer=OPTIMIZERS[request.optimizer],
        micro_batches=request.micro_batches * request.width,
        parts=backward_parts(prepared.program),
        seed=request.seed,
    )
