"""Do replicas train as one process does, whatever is clipped, tied, sharded or kept in low precision?"""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from executor.errors import ConfigurationError
from executor.weights.precision import LossScale, Numerics
from tests.executor.by_hand import (
    Case,
    Training,
    adam,
    adamw,
    batch,
    layers,
    mean_loss,
    momentum,
    reference,
    sgd,
    train,
)
from tests.executor.processes import Ranks
from tuner.schedules.program import Kind
from tuner.schedules.updates import Synchronization

EXACT = 1e-12
ENDS = (((0, "layers.0.0.weight"), (0, "layers.7.0.weight")),)
SHARDED = Synchronization(sharded=True)


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


def frozen_ends() -> list[nn.Module]:
    """The usual layers, of which the first is frozen, and half of the last."""
    made = layers()
    for parameter in [*made[0].parameters(), next(made[-1].parameters())]:
        parameter.requires_grad_(False)
    return made


def weights_agree(
    parts: list[dict[str, Tensor]], expected: dict[str, Tensor], *, within: float = EXACT
) -> None:
    """Every replica has the expected weights, and all copies of a weight are equal bit by bit."""
    seen: dict[str, Tensor] = {}
    for part in parts:
        for key, value in part.items():
            name = key.partition(":")[2]
            assert torch.equal(seen.setdefault(name, value), value), f"replicas of {name} differ"
            assert (value - expected[name]).abs().max() <= within, name
    assert set(seen) == set(expected)


@pytest.mark.parametrize("sharded", [False, True], ids=["whole", "sharded"])
@pytest.mark.parametrize("buckets", [1, 3])
@pytest.mark.parametrize("optimizer", [sgd, momentum, adam, adamw])
def test_replicas_on_two_ranks_train_as_one_process(
    two: Ranks, optimizer: object, buckets: int, sharded: bool
) -> None:
    """Chimera's two pipes: after three steps every weight is that of one process, whole or in shards."""
    how = Synchronization(buckets=buckets, sharded=sharded)
    case = Case(depth=2, optimizer=optimizer, how=how)  # type: ignore[arg-type]
    weights_agree(two.run(train, case, 3), reference(case, 3))


@pytest.mark.parametrize(
    "kind", [torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.NAdam, torch.optim.ASGD, torch.optim.Rprop]
)
def test_every_elementwise_optimizer_can_be_sharded(two: Ranks, kind: type[torch.optim.Optimizer]) -> None:
    """Also those that keep state from the start, or scalars of several names."""
    case = Case(depth=2, optimizer=kind, how=SHARDED)
    weights_agree(two.run(train, case, 3), reference(case, 3))


@pytest.mark.parametrize("how", [Synchronization(), SHARDED], ids=["whole", "sharded"])
def test_clipping_takes_the_norm_of_the_whole_model_once(four: Ranks, how: Synchronization) -> None:
    """D=2, W=2, two pipes: four replicas of each stage count once, and the coefficient is one process's."""
    case = Case(depth=2, width=2, optimizer=momentum, max_norm=0.1, how=how)
    weights_agree(four.run(train, case, 3), reference(case, 3))


@pytest.mark.parametrize("schedule", ["chimera", "dapple"])
@pytest.mark.parametrize("max_norm", [None, 0.05])
def test_tied_ends_train_as_one_parameter(two: Ranks, schedule: str, max_norm: float | None) -> None:
    """Copies on two ranks and two pipes are equal, and those of one process, also when clipped."""
    case = Case(schedule=schedule, depth=2, optimizer=adam, tied=ENDS, max_norm=max_norm)
    weights_agree(two.run(train, case, 3), reference(case, 3))


def test_tied_ends_over_four_ranks_and_two_pipes_are_one_parameter(four: Ranks) -> None:
    """Four copies on two ranks, with a norm that counts them once."""
    case = Case(depth=4, optimizer=adam, tied=ENDS, max_norm=0.05)
    weights_agree(four.run(train, case, 3), reference(case, 3))


def test_tied_ends_on_one_rank_are_one_parameter() -> None:
    """D=1: both copies share memory, and are counted and stepped once."""
    case = Case(schedule="gpipe", depth=1, optimizer=adam, tied=ENDS, max_norm=0.05)
    weights_agree([train(0, 1, case, 3)], reference(case, 3))


def test_frozen_parameters_stay_as_they_are(two: Ranks) -> None:
    """A frozen layer and a half-frozen one: the rest trains as in one process."""
    case = Case(depth=2, optimizer=momentum, make=frozen_ends, max_norm=0.1)
    weights_agree(two.run(train, case, 3), reference(case, 3))


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize("gradient_precision", ["float32", "same"])
@pytest.mark.parametrize("how", [Synchronization(), SHARDED], ids=["whole", "sharded"])
def test_a_mixed_run_follows_its_float32_masters(
    two: Ranks, precision: str, gradient_precision: str, how: Synchronization
) -> None:
    """Within the precision of the weights, which are those of masters that lose no small step."""
    numerics = Numerics(precision, gradient_precision)  # type: ignore[arg-type]
    case = Case(depth=2, optimizer=adam, numerics=numerics, how=how, make=single_precision)
    expected = reference(case, 4)
    weights_agree(two.run(train, case, 4), expected, within=0.02)


def single_precision() -> list[nn.Module]:
    """The usual layers in float32."""
    return layers(dtype=torch.float32)


def test_masters_keep_steps_that_the_weights_cannot_show() -> None:
    """A hundred steps of a thousandth of bfloat16's resolution move the weight in the end."""
    numerics = Numerics("bfloat16")
    case = Case(schedule="gpipe", depth=1, numerics=numerics, make=single_precision, optimizer=tiny_sgd)
    training = Training(case, 0)
    before = training.named()
    for _ in range(100):
        for view in training.weights.gradients().values():
            view.fill_(1.0)
        for op in (op for op in training.ops() if op.kind == Kind.UPDATE):
            training.updater.update(op)
    name = "0:layers.0.0.bias"
    assert before[name].dtype == torch.bfloat16
    assert torch.allclose(training.named()[name].float(), before[name].float() - 0.1, atol=2e-3)


def tiny_sgd(parameters: object) -> torch.optim.Optimizer:
    """Steps of a thousandth."""
    return torch.optim.SGD(parameters, lr=1e-3)  # type: ignore[arg-type]


def test_low_precision_gradients_are_added_up_in_float32() -> None:
    """A small gradient behind a large one is not lost, as it would be in bfloat16."""
    numerics = Numerics("bfloat16", "float32")
    training = Training(Case(schedule="gpipe", depth=1, numerics=numerics, make=single_precision), 0)
    leaf = training.weights.groups[0].leaves["layers.0.0.bias"]
    for factor in (256.0, 0.5, 0.5):
        torch.autograd.backward((leaf * factor).sum())
    assert training.weights.gradients()["layers.0.0.bias"].tolist() == [257.0] * 6
    assert leaf.grad is None


def overflow_on_one_rank(rank: int, world_size: int, case: Case) -> tuple[bool, float, float]:
    """Whether a step with one infinite gradient on rank 0 was skipped, and the scale before and after."""
    training = Training(case, rank, world_size=world_size)
    before, scale = training.named(), training.updater.loss_factor
    if rank == 0:
        next(iter(training.weights.gradients().values())).view(-1)[0] = float("inf")
    for op in training.ops():
        (training.synchronizer.start if op.kind == Kind.SYNC else training.updater.update)(op)
    after = training.named()
    return all(torch.equal(after[name], before[name]) for name in before), scale, training.updater.loss_factor


def test_an_overflow_anywhere_skips_the_step_everywhere(two: Ranks) -> None:
    """One infinite gradient in one stage of one rank: no weight of any stage moves, the scale is halved."""
    case = Case(schedule="dapple", depth=2, numerics=Numerics("float16"), make=single_precision)
    assert two.run(overflow_on_one_rank, case) == [(True, 2.0**16, 2.0**15)] * 2


def test_the_loss_scale_grows_after_a_row_of_good_steps() -> None:
    """And starts counting anew after an overflow; a checkpoint keeps it."""
    scale = LossScale(8.0, growth_steps=3)
    for _ in range(2):
        scale.stepped()
    scale.overflowed()
    assert (scale.value, scale.skipped) == (4.0, 1)
    for _ in range(3):
        scale.stepped()
    assert scale.value == 8.0
    other = LossScale()
    other.load(scale.state())
    assert other.state() == scale.state()


def count_collectives(rank: int, world_size: int, case: Case) -> tuple[list[str], int]:
    """Names of the collectives that one step calls, and the number of groups made so far."""
    import torch.distributed as dist

    training = Training(case, rank, world_size=world_size)
    training.weights.zero()
    training.backward()
    called: list[str] = []
    real = dist.all_reduce

    def counted(*args: object, **options: object) -> object:
        called.append("all_reduce")
        return real(*args, **options)

    dist.all_reduce = counted
    try:
        for op in training.ops():
            (training.synchronizer.start if op.kind == Kind.SYNC else training.updater.update)(op)
    finally:
        dist.all_reduce = real
    return called, training.synchronizer.started


@pytest.mark.parametrize(("buckets", "micro_batches"), [(1, 8), (3, 8), (1, 2)])
def test_a_step_has_one_collective_for_each_bucket_of_each_stage(
    two: Ranks, buckets: int, micro_batches: int
) -> None:
    """However many micro-batches a rank has run, K = 4 rounds of Chimera among them: not one more."""
    case = Case(depth=2, micro_batches=micro_batches, how=Synchronization(buckets=buckets))
    for called, started in two.run(count_collectives, case):
        assert len(called) == started == 2 * buckets


def groups_made(rank: int, world_size: int, case: Case) -> list[list[int]]:
    """The calls of new_group that one rank makes."""
    import torch.distributed as dist

    calls: list[list[int]] = []
    real = dist.new_group

    def recorded(ranks: list[int], **options: object) -> object:
        calls.append(ranks)
        return real(ranks, **options)

    dist.new_group = recorded
    try:
        Training(case, rank, world_size=world_size)
    finally:
        dist.new_group = real
    return calls


def test_every_rank_makes_the_same_process_groups_in_the_same_order(four: Ranks) -> None:
    """Also those that it is no member of: `new_group` waits for all."""
    calls = four.run(groups_made, Case(depth=4, tied=ENDS))
    assert calls[0] == [[0, 3], [1, 2], [0, 1, 2, 3]]
    assert all(call == calls[0] for call in calls)


def test_an_optimizer_that_looks_at_more_than_one_element_is_not_sharded(two: Ranks) -> None:
    """Adafactor's step of a row depends on the whole matrix: refused by name."""
    with pytest.raises(AssertionError, match="Adafactor cannot be divided over replicas"):
        two.run(train, Case(depth=2, optimizer=torch.optim.Adafactor, how=SHARDED), 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max_norm": 1.0}, "gradient clipping"),
        ({"tied": ENDS}, "tied parameters"),
        ({"numerics": Numerics("float16"), "make": single_precision}, "float16"),
    ],
)
def test_what_needs_all_stages_at_once_is_refused_where_they_update_alone(
    change: dict[str, object], words: str
) -> None:
    """Before anything runs, naming the schedule and the option."""
    case = replace(Case(schedule="pipedream_2bw", depth=1, micro_batches=2), **change)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=f"pipedream_2bw updates .* {words}"):
        Training(case, 0)


def test_a_program_with_other_buckets_than_the_weights_is_refused() -> None:
    """The layout of the buffer is fixed when it is made."""
    training = Training(Case(schedule="gpipe", depth=1), 0)
    op = next(op for op in training.ops() if op.kind == Kind.SYNC)
    with pytest.raises(ConfigurationError, match="has 2 buckets, the weights were laid out for 1"):
        training.synchronizer.start(op._replace(parts=2))


def test_a_gradient_that_was_replaced_is_found_before_it_is_lost() -> None:
    """Dropping .grad as `zero_grad` does would keep the gradients out of the collectives."""
    training = Training(Case(schedule="gpipe", depth=1), 0)
    next(iter(training.weights.groups[0].leaves.values())).grad = None
    op = next(op for op in training.ops() if op.kind == Kind.SYNC)
    with pytest.raises(Exception, match=r"the gradient of layers\.0\.0\.weight was replaced"):
        training.synchronizer.start(op)


def test_the_norm_before_clipping_is_told() -> None:
    """It is that of torch's own function on the same gradients."""
    case = Case(schedule="gpipe", depth=1, max_norm=0.1)
    training = Training(case, 0)
    training.step()
    model = nn.ModuleList(layers())
    torch.autograd.backward(mean_loss(list(model), *batch()))
    expected = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    assert training.updater.gradient_norm == pytest.approx(expected.item(), rel=1e-14)
