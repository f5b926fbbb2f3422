"""Are mixed runs the same in every layout, and whose running statistics does a replica end with?"""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from executor.models.loss import mean_squared_error
from executor.running.assembly import Settings
from executor.running.pipeline import Pipeline
from tests.executor.equivalence import DOUBLE, Case, mini_batches, sgd
from tests.executor.processes import Ranks
from tests.executor.running import nets
from tests.executor.running.layouts import SYNCHRONOUS, adam, check, layout
from tuner.configuration import Configuration
from tuner.schedules.generators import program_of
from tuner.schedules.program import Kind

NAMES = tuple(name for name in SYNCHRONOUS if name != "dualpipe")
PRECISION = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
"""Half the distance of numbers near 1."""


def single_batches(scale: float = 1.0) -> list[tuple[Tensor, Tensor]]:
    """Three mini-batches in float32."""
    return [((scale * inputs).float(), targets.float()) for inputs, targets in mini_batches(3)]


def low(rank: int, world_size: int, configuration: Configuration, settings: Settings) -> dict[str, Tensor]:
    """The masters and weights of a mixed run after three steps, on process 0."""
    pipeline = Pipeline(nets.single(), mean_squared_error(), configuration, optimizer=adam, settings=settings)
    dtype = torch.bfloat16 if settings.precision == "bfloat16" else torch.float16
    batches = [(inputs.to(dtype), targets.to(dtype)) for inputs, targets in single_batches()]
    assert all(abs(loss) < 10 for loss in pipeline.train(batches))
    masters = {
        name: leaf.detach()
        for state in pipeline._assembly.weights.groups.values()
        for name, leaf in getattr(state.steps, "targets", {}).items()
    }
    assert {master.dtype for master in masters.values()} <= {torch.float32}
    assert {value.dtype for one in pipeline._assembly.held for _, value in one.parameters()} == {dtype}
    return masters | {f"low {name}": value for name, value in pipeline.full_state().items()}


def by_hand(precision: Any, pieces: int, clip: float | None) -> dict[str, Tensor]:
    """Plain torch: low-precision forward and backward of micro-batches, float32 sums, steps on masters."""
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float16
    scale = 2.0**16 if precision == "float16" else 1.0
    model = nn.Sequential(*nets.single())
    masters = {name: nn.Parameter(value.detach().clone()) for name, value in model.named_parameters()}
    model.to(dtype)
    optimizer = adam(masters.values())
    for inputs, targets in single_batches():
        for master in masters.values():
            master.grad = torch.zeros_like(master)
        for x, y in zip(inputs.to(dtype).chunk(pieces), targets.to(dtype).chunk(pieces), strict=True):
            loss = nn.functional.mse_loss(model(x), y)
            gradients = torch.autograd.grad(
                loss, list(model.parameters()), torch.full_like(loss, scale * len(x) / len(inputs))
            )
            for master, gradient in zip(masters.values(), gradients, strict=True):
                assert master.grad is not None
                master.grad += gradient.float()
        for master in masters.values():
            assert master.grad is not None
            master.grad /= scale
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(masters.values(), clip)
        optimizer.step()
        with torch.no_grad():
            for (_, value), master in zip(model.named_parameters(), masters.values(), strict=True):
                value.copy_(master)
    return {f"layers.{name}": master.detach() for name, master in masters.items()}


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize("clip", [None, 0.1])
def test_mixed_runs_follow_the_same_masters_in_every_layout(
    four: Ranks, precision: Any, clip: float | None
) -> None:
    """Those of one process that works by hand on the same micro-batches, to float32's rounding."""
    expected = by_hand(precision, 4, clip)
    plain = Settings(precision=precision, clip_norm=clip)
    sharded = Settings(precision=precision, clip_norm=clip, optimizer_sharding="replicas", buckets=2)
    cases = [(layout(name, 1, 4, 4), plain) for name in NAMES]
    cases += [(layout(name, 2, 2, 2), how) for name in ("chimera", "zb_v") for how in (plain, sharded)]
    for configuration, settings in cases:
        for found in four.run(low, configuration, settings):
            for name, value in found.items():
                key = name.removeprefix("low ")
                bound = 2e-4 if key == name else 2e-4 + PRECISION[precision] * expected[key].abs().max()
                assert (value.float() - expected[key]).abs().max() <= bound, (configuration, name)


def overflowing(rank: int, world_size: int, configuration: Configuration) -> tuple[list[float], list[bool]]:
    """The loss scale after each of three steps, of which the first overflows, and whether weights moved."""
    settings = Settings(precision="float16")
    pipeline = Pipeline(nets.single(), mean_squared_error(), configuration, optimizer=sgd, settings=settings)
    scales, moved = [], []
    for number, (inputs, targets) in enumerate(single_batches()):
        held = [value for one in pipeline._assembly.held for _, value in one.parameters()]
        before = [value.detach().clone() for value in held]
        bad = targets.clone()
        if number == 0:
            bad[0, 0] = 6e4
        pipeline.step(inputs.half(), bad.half())
        scales.append(pipeline._training.updater.loss_factor)
        moved.append(any(not torch.equal(a, b) for a, b in zip(before, held, strict=True)))
    return scales, moved


@pytest.mark.parametrize(("schedule", "width"), [("dapple", 1), ("chimera", 1), ("zb_v", 2)])
def test_an_overflow_in_one_micro_batch_skips_the_step_everywhere(
    four: Ranks, schedule: str, width: int
) -> None:
    """Every rank halves the loss scale and leaves its weights alone, then goes on."""
    found = four.run(overflowing, layout(schedule, width, 4 // width, 4))
    assert found == [([2.0**15] * 3, [False, True, True])] * 4


def statistics(rank: int, world_size: int, configuration: Configuration) -> list[dict[str, Tensor]]:
    """The buffers of this rank's replicas after each of two steps."""
    pipeline = Pipeline(nets.normalised(), mean_squared_error(), configuration, optimizer=sgd)
    told: list[dict[str, Tensor]] = []
    for batch in mini_batches():
        pipeline.step(*batch)
        held = pipeline._assembly.held
        told.extend({name: value.clone() for name, value in one.buffers()} for one in held)
    return told


def expected_statistics(configuration: Configuration) -> list[dict[str, Tensor]]:
    """Every replica goes through its own micro-batches; then floats are averaged, counters the largest."""
    program = program_of(configuration)
    pipes: dict[int, list[int]] = {pipe: [] for pipe in range(program.pipes)}
    for op in (op for rank in program.ranks for step in rank for op in step):
        if op.kind == Kind.F and op.stage == 0:
            pipes[op.pipe].append(op.micro_batch)
    count = configuration.micro_batches
    states: list[dict[str, Tensor]] = []
    for step, (inputs, _) in enumerate(mini_batches()):
        start = _weights_before(configuration, step) | (states[-1] if states else {})
        pieces = torch.tensor_split(inputs, count * configuration.width)
        replicas = [
            _passed(start, [pieces[group * count + m] for m in numbers])
            for group in range(configuration.width)
            for numbers in pipes.values()
        ]
        states.append({name: _merged([one[name] for one in replicas]) for name in replicas[0]})
    return states


def _passed(start: dict[str, Tensor], pieces: list[Tensor]) -> dict[str, Tensor]:
    """The buffers of a model that has seen these micro-batches."""
    layers = nn.ModuleList(nets.normalised())
    model = nn.ModuleDict({"layers": layers})
    model.load_state_dict(start, strict=False)
    for value in pieces:
        for layer in layers:
            value = layer(value)  # noqa: PLW2901 - through the layers
    return dict(model.named_buffers())


def _merged(values: list[Tensor]) -> Tensor:
    whole = torch.stack(values)
    return whole.mean(0) if whole.dtype == DOUBLE else whole.amax(0)


def _weights_before(configuration: Configuration, step: int) -> dict[str, Tensor]:
    model = nn.ModuleDict({"layers": nn.ModuleList(nets.normalised())})
    if step == 0:
        return {name: value.detach() for name, value in model.named_parameters()}
    case = Case(configuration, layers=nets.normalised, by_micro_batches=True, data=first_batch)
    learnt = case.reference()
    return {name: learnt.weights[name] for name, _ in model.named_parameters()}


def first_batch() -> list[tuple[Tensor, Tensor]]:
    """One step."""
    return mini_batches(1)


@pytest.mark.parametrize(
    "configuration",
    [
        layout("chimera", 1, 4, 4),
        layout("chimera", 2, 2, 4),
        layout("chimera", 1, 4, 4, pipe_pairs=2),
        layout("chimera", 1, 4, 3),
        layout("chimera", 2, 2, 1),
        layout("gems", 1, 4, 6),
        layout("dapple", 2, 2, 3, recompute="layer"),
        layout("zb_v", 2, 2, 4),
    ],
    ids=str,
)
def test_running_statistics_are_merged_over_replicas(four: Ranks, configuration: Configuration) -> None:
    """After every step they are those of the rule, equal on all replicas; a micro-batch counts once."""
    expected = expected_statistics(configuration)
    for told in four.run(statistics, configuration):
        for number, buffers in enumerate(told):
            wanted = expected[number // (len(told) // 2)]
            for name, value in buffers.items():
                assert (value - wanted[name]).abs().max() <= 1e-12, name


@pytest.mark.parametrize("recompute", ["none", "stage", "layer"])
def test_statistics_of_one_pipe_are_those_of_its_micro_batches(four: Ranks, recompute: str) -> None:
    """In their order, with and without recomputation; N = 1 is plain batch normalisation."""
    names = [name for name in NAMES if name not in {"chimera", "gems", "chimera_split"}]
    layouts = [layout(name, 1, 4, 4, recompute=recompute) for name in names]
    check(four, [Case(one, layers=nets.normalised, by_micro_batches=True) for one in layouts])
    check(four, [Case(layout("gpipe", 1, 4, 1, recompute=recompute), layers=nets.normalised)])
