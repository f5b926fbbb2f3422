"""How much memory does each rank need? Recomputed layer by layer, with nothing from the tuner's own model."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

from profiles.model import Layer, ModelDescription
from tuner.configuration import Configuration
from tuner.request import PlanRequest

Parts = dict[str, int]


@dataclass(frozen=True)
class Device:
    """What the memory of a rank is measured against."""

    capacity_bytes: int
    framework_bytes: int = 0
    activation_factor: float = 1.0
    asynchronous_copies: float = 0.0


def peak_bytes(ranks: Sequence[Parts]) -> int:
    """Total of the fullest rank."""
    return max(sum(parts.values()) for parts in ranks)


def rank_parts(
    description: ModelDescription,
    request: PlanRequest,
    configuration: Configuration,
    *,
    stage_layers: Sequence[int],
    device: Device,
) -> list[Parts]:
    """The named parts of every rank of a pipeline group.

    `request` has its precision decided. Weights take 4 bytes in float32, else 2; gradients the same unless
    they are kept in float32; the optimizer has float32 states, and master weights under mixed precision.
    """
    stages = _cut(description, stage_layers)
    return [
        _one_rank(description, request, configuration, held=held, stages=stages, device=device)
        for held in _held(configuration)
    ]


Held = list[tuple[int, int]]
"""(pipe, stage) of every stage on a rank."""


def _cut(description: ModelDescription, stage_layers: Sequence[int]) -> list[list[int]]:
    """Layers of each stage: its blocks, what stands before them in the first, what follows in the last."""
    blocks = list(description.blocks)
    stages, start = [], 0
    for count in stage_layers:
        stages.append(blocks[start : start + count])
        start += count
    assert start == len(blocks)
    stages[0] = [*range(blocks[0]), *stages[0]]
    stages[-1] = [*stages[-1], *range(blocks[-1] + 1, len(description.layers))]
    return stages


def _held(configuration: Configuration) -> list[Held]:
    depth, pairs = configuration.depth, configuration.pipe_pairs
    held: list[Held] = [[] for _ in range(depth)]
    pipes = 2 * pairs if configuration.schedule in ("chimera", "gems") else 1
    for pipe in range(pipes):
        for stage in range(depth):
            down = depth - 1 - stage if pipe % 2 else stage
            held[(down + pipe // 2 * (depth // pairs)) % depth].append((pipe, stage))
    return held


def _live(configuration: Configuration, pipe: int, stage: int) -> float:
    """Micro-batches whose activations a stage keeps at its fullest moment."""
    depth, count = configuration.depth, configuration.micro_batches
    left = depth - stage
    match configuration.schedule, configuration.scaling:
        case "gpipe", _:
            return count
        case "dapple", _:
            return min(count, left)
        case "gems", _:
            return min(1, (count + 1 - pipe) // 2)
        case "chimera", "direct":
            pipes = 2 * configuration.pipe_pairs
            unit = min(count, depth)
            return min(unit // pipes + (pipe < unit % pipes), left)
        case "chimera", scaling:
            return min(depth, depth / 2 + left) / (1 if scaling == "doubling" else 2)
        case (("pipedream" | "pipedream_2bw"), _):
            return left
    raise AssertionError(f"{configuration.schedule} is not recomputed by hand")


def _one_rank(
    description: ModelDescription,
    request: PlanRequest,
    configuration: Configuration,
    *,
    held: Held,
    stages: list[list[int]],
    device: Device,
) -> Parts:
    weight = 4 if request.precision == "float32" else 2
    gradient = 4 if request.gradient_precision == "float32" else weight
    states = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}[request.optimizer]
    optimizer = 4 * states + (0 if weight == 4 else 4)
    copies = 2 * configuration.pipe_pairs if configuration.schedule in ("chimera", "gems") else 1
    shards = copies * configuration.width if request.optimizer_sharding == "replicas" else 1
    parameters = _parameters(description, [stages[stage] for _, stage in held])
    rank = _Rank(description, configuration, held=held, stages=stages, factor=device.activation_factor)
    exact = {
        "weights_bytes": weight
        * (
            _weight_copies(description, configuration, held, stages=stages)
            + (device.asynchronous_copies * parameters if "pipedream" in configuration.schedule else 0)
        ),
        "gradients_bytes": parameters * gradient,
        "optimizer_bytes": parameters * optimizer / shards,
        "activations_bytes": rank.together(rank.kept),
        **rank.fullest_moment(),
        "communication_bytes": sum(rank.messages(stage) for _, stage in held),
        "framework_bytes": device.framework_bytes,
        "reserve_bytes": request.margin * device.capacity_bytes,
    }
    return {name: ceil(size) for name, size in exact.items()}


def _parameters(description: ModelDescription, runs: list[list[int]]) -> int:
    """Parameters of the runs of layers; what is tied is held once."""
    total, tied = 0, defaultdict[str, int](int)
    for run in runs:
        for index in run:
            layer = description.layers[index]
            total += layer.parameters - layer.tied_parameters
            if layer.tied_group:
                tied[layer.tied_group] = layer.tied_parameters
    return total + sum(tied.values())


def _weight_copies(
    description: ModelDescription, configuration: Configuration, held: Held, *, stages: list[list[int]]
) -> int:
    if configuration.schedule == "pipedream_2bw":
        return 2 * _parameters(description, [stages[stage] for _, stage in held])
    if configuration.schedule == "pipedream":
        (_, stage), *_ = held
        return (configuration.depth - stage) * _parameters(description, [stages[stage]])
    return _parameters(description, [stages[stage] for _, stage in held])


class _Rank:
    """Activations, losses and messages of one rank at one micro-batch size."""

    def __init__(
        self,
        description: ModelDescription,
        configuration: Configuration,
        *,
        held: Held,
        stages: list[list[int]],
        factor: float,
    ) -> None:
        self._layers, self._configuration = description.layers, configuration
        self._held, self._stages, self._factor = held, stages, factor
        self._size = configuration.micro_batch_size

    def together(self, size: Callable[[int, int], float]) -> float:
        """Over the stages of the rank: all alive at once, or under GEMS one pipe after the other."""
        sizes = [size(pipe, stage) for pipe, stage in self._held]
        return max(sizes) if self._configuration.schedule == "gems" else sum(sizes)

    def kept(self, pipe: int, stage: int) -> float:
        """What all live micro-batches of a stage keep under the recomputation."""
        live = _live(self._configuration, pipe, stage)
        layers = [self._layers[index] for index in self._stages[stage]]
        if self._configuration.recompute == "none":
            return live * sum(self._activation(layer) for layer in layers)
        if self._configuration.recompute == "stage":
            return live * self._entering(self._stages[stage][0])
        outside = sum(self._activation(layer) for layer in layers if layer.kind != "block")
        blocks = [index for index in self._stages[stage] if self._layers[index].kind == "block"]
        return live * (outside + sum(self._entering(index) for index in blocks))

    def messages(self, stage: int) -> float:
        """A message in flight each way over both cuts of a stage."""
        entering = self._entering(self._stages[stage][0]) if stage else 0
        last = stage == len(self._stages) - 1
        return 2 * (
            entering + (0 if last else self._layers[self._stages[stage][-1]].cut_bytes.at(self._size))
        )

    def fullest_moment(self) -> dict[str, float]:
        """A loss being computed, or a layer running backwards: what needs more."""
        keep_all = self._configuration.recompute != "stage"
        stages = [self._backward(stage) for _, stage in self._held]
        working, transient = max(stages, key=sum)
        beside = 0.0 if keep_all else max(self._beside_loss(stage) for _, stage in self._held)

        def losses(pipe: int, stage: int) -> float:
            return (_live(self._configuration, pipe, stage) if keep_all else 1) * self._loss(stage)

        def others(pipe: int, stage: int) -> float:
            live = _live(self._configuration, pipe, stage) if keep_all else 1
            return max(0.0, live - 1) * self._loss(stage)

        at_loss = self.together(losses) + max(self._loss_work(stage) for _, stage in self._held)
        waiting = self.together(others)
        if at_loss + beside > waiting + working + transient:
            return {"recompute_bytes": beside, "loss_bytes": at_loss, "transient_bytes": 0.0}
        return {"recompute_bytes": working, "loss_bytes": waiting, "transient_bytes": transient}

    def _backward(self, stage: int) -> tuple[float, float]:
        """What is recomputed and what else is needed where a stage's backward adds most.

        It goes through the layers from the last to the first; each lets go of what it kept.
        """
        recompute = self._configuration.recompute
        layers = [(index, self._layers[index]) for index in self._stages[stage]]
        whole = sum(self._activation(layer) for _, layer in layers) if recompute == "stage" else 0.0
        most = freed = 0.0
        for index, layer in reversed(layers):
            alone = recompute == "layer" and layer.kind == "block"
            again = self._activation(layer) if alone else whole
            transient = 0.0 if layer.kind == "loss" else layer.transient_bytes.at(self._size)
            most = max(most, again + transient - freed)
            freed += self._entering(index) if alone else self._activation(layer)
        if recompute == "layer":
            whole = min(most, max(self._activation(layer) for _, layer in layers if layer.kind == "block"))
        return whole, most - whole

    def _beside_loss(self, stage: int) -> float:
        """A stage is recomputed with its loss."""
        layers = [self._layers[index] for index in self._stages[stage]]
        has_loss = any(layer.kind == "loss" for layer in layers)
        return sum(self._activation(layer) for layer in layers) if has_loss else 0.0

    def _activation(self, layer: Layer) -> float:
        return 0.0 if layer.kind == "loss" else self._factor * layer.activation_bytes.at(self._size)

    def _entering(self, index: int) -> float:
        return self._layers[index - 1].cut_bytes.at(self._size) if index else 0.0

    def _loss(self, stage: int) -> float:
        layers = [self._layers[index] for index in self._stages[stage]]
        return sum(layer.activation_bytes.at(self._size) for layer in layers if layer.kind == "loss")

    def _loss_work(self, stage: int) -> float:
        layers = [self._layers[index] for index in self._stages[stage]]
        return sum(layer.transient_bytes.at(self._size) for layer in layers if layer.kind == "loss")
