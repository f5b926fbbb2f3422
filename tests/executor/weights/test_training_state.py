"""Does a saved training go on in any other layout as if it had never stopped?"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from executor.errors import CheckpointError, ConfigurationError, ExecutorError
from executor.weights.checkpoint import load, save
from executor.weights.groups import ParameterGroups
from executor.weights.holdings import HeldStage
from executor.weights.precision import Numerics
from executor.weights.replicas import check_replicas, equalise, full_state
from executor.weights.training_state import gather_training_state, load_training_state
from tests.executor.by_hand import Case, Training, adam, adamw, layers, momentum
from tests.executor.processes import Ranks
from tuner.schedules.updates import Synchronization

ENDS = (((0, "layers.0.0.weight"), (0, "layers.7.0.weight")),)
SHARDED = Synchronization(sharded=True, buckets=3)
ONE = {"schedule": "gpipe", "depth": 1}


@pytest.fixture(scope="module")
def two() -> Iterator[Ranks]:
    """Two processes."""
    with Ranks(2) as ranks:
        yield ranks


@pytest.fixture(scope="module")
def four() -> Iterator[Ranks]:
    """Four processes."""
    with Ranks(4) as ranks:
        yield ranks


def go_on(
    rank: int, world_size: int, case: Case, steps: int, path: Path | None, into: Path | None
) -> dict[str, Any]:
    """Train from a checkpoint, and write another; the state on process 0."""
    training = Training(case, rank, world_size=world_size)
    scale = training.updater.loss_scale
    if path is not None:
        load_training_state(training.weights, load(path), loss_scale=scale)
    for _ in range(steps):
        training.step()
    check_replicas(training.held, groups=training.groups, tied=training.tied)
    state = gather_training_state(training.weights, training.groups, rank=rank, loss_scale=scale)
    if into is not None and rank == 0:
        save(into, state)
    return state


def assert_same(one: Any, other: Any, where: str = "state") -> None:
    """Equal bit by bit, types and order of keys included."""
    assert type(one) is type(other), where
    if isinstance(one, dict):
        assert set(one) == set(other), where
        for key in one:
            assert_same(one[key], other[key], f"{where}[{key}]")
    elif isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype, where
        assert torch.equal(one, other), where
        assert torch.equal(torch.signbit(one), torch.signbit(other)), where
    else:
        assert one == other, where


LAYOUTS = [
    Case(depth=2, optimizer=adam, tied=ENDS),
    Case(depth=2, optimizer=adam, tied=ENDS, how=SHARDED),
    Case(schedule="dapple", depth=1, width=2, optimizer=adam, tied=ENDS, how=SHARDED),
    Case(schedule="interleaved", depth=2, chunks=2, optimizer=adam, tied=ENDS),
]


@pytest.mark.parametrize("saved", LAYOUTS, ids=["chimera", "sharded", "replicated", "chunks"])
@pytest.mark.parametrize("loaded", LAYOUTS, ids=["chimera", "sharded", "replicated", "chunks"])
def test_a_checkpoint_loads_in_every_other_layout_bit_by_bit(
    two: Ranks, saved: Case, loaded: Case, tmp_path: Path
) -> None:
    """Weights and optimizer state, gathered again after loading, are those that were saved."""
    first = two.run(go_on, saved, 2, None, tmp_path / "a.pt")[0]
    again = two.run(go_on, loaded, 0, tmp_path / "a.pt", None)[0]
    assert_same(first, again)


def test_a_training_goes_on_in_one_process_and_on_four_ranks(four: Ranks, tmp_path: Path) -> None:
    """Chimera on four ranks, then one process, then D=2, W=2 in shards: as uninterrupted, within 1e-12."""
    spread = Case(depth=4, optimizer=adamw, tied=ENDS)
    shards = Case(depth=2, width=2, optimizer=adamw, tied=ENDS, how=SHARDED)
    one = Case(**ONE, optimizer=adamw, tied=ENDS)
    four.run(go_on, spread, 2, None, tmp_path / "a.pt")
    go_on(0, 1, one, 2, tmp_path / "a.pt", tmp_path / "b.pt")
    resumed = four.run(go_on, shards, 2, tmp_path / "b.pt", None)[0]
    expected = go_on(0, 1, one, 6, None, None)
    assert list(resumed["model"]) == [name for name, _ in named(layers())]
    for name, tensor in expected["model"].items():
        assert (resumed["model"][name] - tensor).abs().max() <= 1e-12


def test_a_checkpoint_serves_torch_alone(two: Ranks, tmp_path: Path) -> None:
    """The saved names and tensors are a module's state dict and Adam's state, every key once."""
    two.run(
        go_on, Case(schedule="interleaved", depth=2, chunks=2, optimizer=adam), 2, None, tmp_path / "a.pt"
    )
    state = load(tmp_path / "a.pt")
    model = nn.ModuleDict({"layers": nn.ModuleList(layers())})
    model.load_state_dict(state["model"])
    assert set(state["optimizer"]) == {name for name, _ in model.named_parameters()}
    assert set(state["optimizer"]["layers.3.0.bias"]["state"]) == {"step", "exp_avg", "exp_avg_sq"}


@pytest.mark.parametrize("how", [Synchronization(), SHARDED], ids=["whole", "sharded"])
def test_masters_and_the_loss_scale_survive_a_change_of_layout(
    two: Ranks, how: Synchronization, tmp_path: Path
) -> None:
    """A float16 run goes on from its float32 masters, and a float32 run takes those as its weights."""
    mixed = {"optimizer": momentum, "numerics": Numerics("float16"), "make": single_precision}
    first = two.run(go_on, Case(depth=2, how=how, **mixed), 2, None, tmp_path / "a.pt")[0]
    assert_same(first, go_on(0, 1, Case(**ONE, **mixed), 0, tmp_path / "a.pt", None))
    plain = Case(**ONE, optimizer=momentum, make=single_precision)
    taken = go_on(0, 1, plain, 0, tmp_path / "a.pt", None)
    for name, tensor in taken["model"].items():
        assert torch.equal(tensor, first["optimizer"][name]["master"])


def single_precision() -> list[nn.Module]:
    """The usual layers in float32."""
    return layers(dtype=torch.float32)


def state_at_the_start(rank: int, world_size: int, case: Case) -> dict[str, Any]:
    """The whole model before any step, on process 0, where every process has random numbers of its own."""
    training = Training(case, rank, world_size=world_size)
    check_replicas(training.held, groups=training.groups)
    return full_state(training.weights, training.groups, rank=rank)


@pytest.mark.parametrize(("depth", "pairs"), [(2, 1), (4, 1), (4, 2)])
def test_the_initial_weights_do_not_depend_on_the_layout(four: Ranks, depth: int, pairs: int) -> None:
    """D=1, 2 and 4, one and two pairs of pipes: the same state dict, with every key once."""
    case = Case(depth=depth, width=4 // depth, pipe_pairs=pairs)
    expected = state_at_the_start(0, 1, Case(**ONE))
    assert_same(four.run(state_at_the_start, case)[0], expected)


def differently_seeded(rank: int, world_size: int, equal: bool) -> str:
    """What the check of replicas says, with weights that differ by process, equalised or not."""
    program = Case(schedule="gpipe", depth=1, width=2).program()
    groups = ParameterGroups(program.placement, ranks=[[0], [1]])
    chosen = layers(2, seed=rank)
    chosen.append(nn.BatchNorm1d(6))
    chosen[-1].running_mean.fill_(rank)  # type: ignore[union-attr,operator]
    held = [HeldStage(0, 0, nn.ModuleList(chosen), 0)]
    if equal:
        equalise(held, groups=groups)
    try:
        check_replicas(held, groups=groups)
    except ExecutorError as error:
        return str(error)
    return ""


def test_replicas_start_equal_whatever_made_them(two: Ranks) -> None:
    """Random weights and buffers of their own are told, and become those of the first by a broadcast."""
    assert all(
        "the copies of stage 0 on processes (0, 1) differ" in said
        for said in two.run(differently_seeded, False)
    )
    assert two.run(differently_seeded, True) == ["", ""]


def differently_built(rank: int, world_size: int) -> str:
    """What equalise says where processes build different layers."""
    program = Case(schedule="gpipe", depth=1, width=2).program()
    groups = ParameterGroups(program.placement, ranks=[[0], [1]])
    try:
        equalise([HeldStage(0, 0, nn.ModuleList([nn.Linear(3, 3 + rank)]), 0)], groups=groups)
    except ConfigurationError as error:
        return str(error)
    return ""


def test_replicas_of_different_shapes_are_refused_on_all_ranks(two: Ranks) -> None:
    """Instead of a broadcast of the wrong number of bytes."""
    assert all("different names, shapes or dtypes" in said for said in two.run(differently_built))


@pytest.mark.parametrize("change", ["key", "shape", "state"])
def test_a_state_of_another_model_changes_nothing(change: str) -> None:
    """The name and both shapes are told before any weight is touched."""
    training = Training(Case(**ONE, optimizer=adam), 0)
    training.step()
    state = gather_training_state(training.weights, training.groups, rank=0)
    if change == "key":
        del state["model"]["layers.7.0.bias"]
    elif change == "shape":
        state["model"]["layers.7.0.bias"] = torch.ones(7)
    else:
        del state["optimizer"]["layers.7.0.bias"]
    before = training.named()
    with pytest.raises(CheckpointError, match=r"layers\.7\.0\.bias"):
        load_training_state(training.weights, state)
    assert_same(training.named(), before)


def named(chosen: list[nn.Module]) -> list[tuple[str, nn.Parameter]]:
    """Parameters of layers under their names in the whole model."""
    return [(f"layers.{name}", parameter) for name, parameter in nn.ModuleList(chosen).named_parameters()]
