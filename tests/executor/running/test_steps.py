"""Do steps add up as those of one process do, whatever their shapes, and whatever is done between them?"""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from executor.errors import ConfigurationError
from executor.models.loss import mean_squared_error
from executor.running.assembly import Settings
from executor.running.pipeline import Pipeline
from executor.running.reference import learn
from tests.executor.equivalence import Case, mini_batches, net, sgd
from tests.executor.processes import Ranks
from tests.executor.running import nets
from tests.executor.running.layouts import SYNCHRONOUS, adam, layout
from tuner.configuration import Configuration

EXACT = 1e-12
NAMES = tuple(name for name in SYNCHRONOUS if name != "dualpipe")
State = dict[str, Tensor]


def made(configuration: Configuration, settings: Settings | None = None, **more: Any) -> Pipeline:
    """A pipeline of the usual blocks."""
    layers = more.get("layers", net)()
    optimizer = more.get("optimizer", sgd)
    return Pipeline(layers, mean_squared_error(), configuration, optimizer=optimizer, settings=settings)


def gradients(pipeline: Pipeline) -> State:
    """Copies of what this rank has added up."""
    return {name: value.clone() for name, value in pipeline._assembly.weights.gradients().items()}


def close(ours: State, theirs: State, scale: float = 1.0) -> bool:
    """Whether everything that is here is there, to rounding."""
    return all((value - scale * theirs[name]).abs().max() <= EXACT for name, value in ours.items())


def added_up(rank: int, world_size: int, names: list[str]) -> list[str]:
    """Schedules whose gradients after three mini-batches are not the sum of three, or whose step is not."""
    batches = mini_batches(3)
    expected: State = {}
    for batch in batches:
        for name, value in learn(net(), mean_squared_error(), [batch], optimizer=sgd).gradients.items():
            expected[name] = expected.get(name, 0) + value
    wrong = []
    for schedule in names:
        pipeline = made(layout(schedule, 1, world_size, 4))
        start = {name: value.clone() for name, value in pipeline._assembly.held[0].parameters()}
        for batch in batches[:2]:
            pipeline.step(*batch, update=False)
            if any(not torch.equal(v, start[k]) for k, v in pipeline._assembly.held[0].parameters()):
                wrong.append(f"{schedule} stepped")
        pipeline.step(*batches[2])
        if not close(gradients(pipeline), expected):
            wrong.append(f"{schedule} gradients")
        moved = {k: start[k] - v.detach() for k, v in pipeline._assembly.held[0].parameters()}
        if not close(moved, expected, scale=0.1):
            wrong.append(f"{schedule} weights")
        pipeline.step(*batches[0])
        if close(gradients(pipeline), expected):
            wrong.append(f"{schedule} forgets nothing")
    return wrong


def test_gradients_of_several_mini_batches_are_their_sum(four: Ranks) -> None:
    """Three of four micro-batches each, and one step: nothing is scaled twice, and all is forgotten."""
    assert four.run(added_up, list(NAMES)) == [[]] * 4


def norms(rank: int, world_size: int, schedule: str, width: int) -> list[float]:
    """Of the gradient before clipping, for 1, 2, 4 and 8 micro-batches."""
    found = []
    for micro_batches in (1, 2, 4, 8):
        pipeline = made(layout(schedule, width, world_size // width, micro_batches), Settings(clip_norm=1.0))
        pipeline.train(mini_batches(1))
        norm = pipeline._training.updater.gradient_norm
        assert norm is not None
        found.append(norm)
    return found


def test_the_norm_of_the_gradient_does_not_depend_on_how_it_is_cut(four: Ranks) -> None:
    """The same mini-batch in 1 to 32 micro-batches: equal to 1e-12."""
    found = [four.run(norms, name, width) for name in ("dapple", "chimera", "gpipe") for width in (1, 2)]
    every = [norm for ranks in found for rank in ranks for norm in rank]
    assert max(every) - min(every) <= EXACT


def exact_steps(rank: int, world_size: int, schedule: str, micro_batches: int) -> list[float]:
    """Weights of linear layers of one number after a step on x = 1, y = 0."""
    count = 2 if world_size == 2 else 4
    ones = torch.ones(micro_batches, 1, dtype=torch.float64)
    pipeline = made(layout(schedule, 1, world_size, micro_batches), layers=lambda: nets.scalars()[:count])
    pipeline.step(ones, 0 * ones)
    return [parameter.item() for one in pipeline._assembly.held for _, parameter in one.parameters()]


@pytest.mark.parametrize("schedule", ["gpipe", "dapple", "chimera", "zb_h1"])
def test_a_step_is_scaled_once_and_not_once_a_stage(two: Ranks, four: Ranks, schedule: str) -> None:
    """Two layers of weight 1 step by 0.1 · 2 to 0.8 exactly; four on four ranks, all to the same."""
    assert {value for part in two.run(exact_steps, schedule, 2) for value in part} == {0.8}
    assert {value for part in four.run(exact_steps, schedule, 4) for value in part} == {0.8}


def first_losses(rank: int, world_size: int, cases: list[Configuration]) -> list[bool]:
    """Whether the loss of the first step is bit for bit that of micro-batches one after the other."""
    batch = mini_batches(1)
    return [
        made(one).train(batch) == Case(one, by_micro_batches=True, data=one_batch).reference().losses
        for one in cases
    ]


def one_batch() -> list[tuple[Tensor, Tensor]]:
    """The first mini-batch."""
    return mini_batches(1)


def test_a_loss_is_added_up_in_the_order_of_the_micro_batches(four: Ranks) -> None:
    """Bit for bit, whichever schedule gives the losses in which order, in one group and in two."""
    cases = [layout(name, w, 4 // w, 8) for name in SYNCHRONOUS for w in (1, 2)]
    assert four.run(first_losses, cases) == [[True] * len(cases)] * 4


def without_gradients(rank: int, world_size: int, configuration: Configuration) -> bool:
    """Whether a pipeline learns where its caller has turned gradients off."""
    pipeline = made(configuration)
    with torch.no_grad():
        losses = pipeline.train(mini_batches())
    return pipeline.check(losses, Case(configuration).reference()).passes("float64")


def test_a_caller_may_have_turned_gradients_off(four: Ranks) -> None:
    """Shapes are found, and steps taken, as ever."""
    assert four.run(without_gradients, layout("chimera", 1, 4, 4)) == [True] * 4


def other_shapes(rank: int, world_size: int, names: list[str]) -> list[str]:
    """Schedules under which a step of another shape is not that of one process."""
    generator = torch.Generator().manual_seed(5)
    shapes = [(24, 5), (24, 7), (16, 7), (9, 7), (24, 5)]
    drawn = [torch.randn(2, *s, 16, dtype=torch.float64, generator=generator) for s in shapes]
    batches = [(inputs, targets) for inputs, targets in drawn]
    learnt = learn(net(), mean_squared_error(), batches, optimizer=adam)
    wrong = []
    for name in names:
        pipeline = made(layout(name, 1, world_size, 4), optimizer=adam)
        losses = [pipeline.step(*batch) for batch in batches]
        if not pipeline.check(losses, learnt).passes("float64"):
            wrong.append(name)
    return wrong


def test_every_step_may_have_shapes_of_its_own(four: Ranks) -> None:
    """Sequences of 5, then of 7, then fewer samples, then an uneven number, then as at first."""
    assert four.run(other_shapes, list(NAMES)) == [[]] * 4


def evaluated(rank: int, world_size: int, configuration: Configuration) -> str:
    """What is wrong with evaluations between steps."""
    batches, (samples, targets) = mini_batches(2), mini_batches(1, 250)[0]
    pipeline = made(configuration, layers=nets.normalised)
    model = nn.Sequential(*nets.normalised())
    twin = None
    if configuration.width == 1 and configuration.schedule == "dapple":
        twin = Case(configuration, layers=nets.normalised, by_micro_batches=True, data=one_batch).reference()
    pipeline.step(*batches[0])
    told = [pipeline.evaluate(samples, targets) for _ in range(3)]
    (answer,) = pipeline.predict(samples[:2])
    state = pipeline.full_state()
    if len(set(told)) > 1:
        return f"three evaluations differ: {told}"
    if rank == 0:
        model.load_state_dict({name.removeprefix("layers."): value for name, value in state.items()})
        model.eval()
        with torch.no_grad():
            expected = nn.functional.mse_loss(model(samples), targets).item()
            if abs(expected - told[0]) > EXACT or (answer - model(samples[:2])).abs().max() > EXACT:
                return f"evaluated {told[0]} where one process has {expected}"
        if twin is not None and not close(state, twin.weights):
            return "statistics are not those of one process"
    pipeline.step(*batches[1])
    again = pipeline.full_state()
    moved = rank > 0 or not torch.equal(again["layers.0.1.running_mean"], state["layers.0.1.running_mean"])
    return "" if moved else "statistics do not move in training after an evaluation"


@pytest.mark.parametrize(
    ("schedule", "width"), [("dapple", 1), ("chimera", 1), ("chimera", 2), ("zb_v", 2), ("pipedream_2bw", 1)]
)
def test_evaluations_may_stand_between_steps(four: Ranks, schedule: str, width: int) -> None:
    """Train, evaluate three times, train: nothing waits, and larger batches are as in one process."""
    assert four.run(evaluated, layout(schedule, width, 4 // width, 4)) == [""] * 4


def refused(rank: int, world_size: int, configuration: Configuration) -> str:
    """What is said to a mini-batch of three samples; the next one is trained, in inference mode refused."""
    pipeline = made(configuration)
    try:
        pipeline.train(mini_batches(1, 3))
    except ConfigurationError as error:
        with torch.inference_mode(), pytest.raises(ConfigurationError, match="nothing is learnt in"):
            pipeline.train(mini_batches(1))
        pipeline.train(mini_batches(1))
        return str(error)
    return ""


@pytest.mark.parametrize("schedule", ["gpipe", "chimera", "dapple"])
def test_too_few_samples_are_refused_on_every_rank(four: Ranks, schedule: str) -> None:
    """Three samples in four micro-batches, or two in each of two groups; nothing has been sent."""
    for configuration in (layout(schedule, 1, 4, 4), layout(schedule, 2, 2, 2)):
        for said in four.run(refused, configuration):
            assert "a mini-batch of 3 samples cannot be cut into 4 micro-batches" in said


def train_and_save(rank: int, world_size: int, case: Case, path: str) -> None:
    """Two steps of three."""
    pipeline = made(case.configuration, case.settings, optimizer=adam)
    pipeline.train(mini_batches(3)[:2])
    pipeline.save(path)


def load_and_train(rank: int, world_size: int, case: Case, path: str) -> tuple[bool, list[str]]:
    """The third step: whether all is as without the interruption, and the keys of the model."""
    pipeline = made(case.configuration, case.settings, optimizer=adam)
    pipeline.load(path)
    losses = pipeline.train(mini_batches(3)[2:])
    learnt = learn(net(), mean_squared_error(), mini_batches(3), optimizer=adam)
    learnt.losses = learnt.losses[2:]
    assert pipeline.steps == 3
    return pipeline.check(losses, learnt).passes("float64"), list(pipeline.full_state())


def test_a_saved_training_goes_on_in_any_other_layout(one: Ranks, four: Ranks, tmp_path: Path) -> None:
    """Virtual stages, two pipes or shards on four ranks, one process: each key once, weights as if uncut."""
    sharded = Settings(optimizer_sharding="replicas")
    spread = [
        Case(layout("interleaved", 1, 4, 4), Settings(partition=(1,) * 8)),
        Case(layout("chimera", 2, 2, 4), sharded),
        Case(layout("zb_v", 2, 2, 4)),
    ]
    alone = Case(layout("gpipe", 1, 1, 1))
    keys = list(nn.ModuleDict({"layers": nn.ModuleList(net())}).state_dict())
    for number, case in enumerate(spread):
        path = str(tmp_path / f"{number}.pt")
        four.run(train_and_save, case, path)
        assert one.run(load_and_train, alone, path) == [(True, keys)]
        for other in spread:
            found = four.run(load_and_train, other, path)
            assert all(equal for equal, _ in found)
            assert found[0][1] == keys
