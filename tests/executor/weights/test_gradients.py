"""Do buckets and shards cover a flat buffer once, and is every gradient a view of it?"""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from executor.weights.gradients import FlatGradients, Layout
from executor.weights.groups import ParameterGroups
from executor.weights.holdings import HeldStage, RankWeights
from executor.weights.steps import WholeSteps
from tests.executor.by_hand import Case, Training, adam, reference, train


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5),
    buckets=st.integers(1, 5),
    members=st.integers(1, 5),
)
def test_every_element_is_in_one_bucket_and_one_shard(sizes: list[int], buckets: int, members: int) -> None:
    """All buckets and shards are equally long, in order, and the padding is short."""
    layout = Layout([torch.Size([size]) for size in sizes], buckets=buckets, members=members)
    whole = list(range(layout.length))
    assert [at for bucket in range(buckets) for at in whole[layout.bucket(bucket)]] == whole
    pieces = [layout.shard(bucket, member) for bucket in range(buckets) for member in range(members)]
    assert [at for piece in pieces for at in whole[piece]] == whole
    assert sum(sizes) <= layout.length < sum(sizes) + buckets * members


def test_backwards_add_into_the_buffer() -> None:
    """Without a copy, in the order of the parameters."""
    layer = nn.Linear(2, 1)
    leaves = {name: (leaf,) for name, leaf in layer.named_parameters()}
    layout = Layout([leaf.shape for leaf in layer.parameters()], buckets=1)
    gradients = FlatGradients(leaves, layout=layout, dtype=torch.float32)
    for _ in range(2):
        torch.autograd.backward(layer(torch.tensor([[3.0, 4.0]])).sum())
    assert gradients.flat.tolist() == [6.0, 8.0, 2.0]
    gradients.check()


def test_new_leaves_go_on_with_gradients_and_optimizer_state() -> None:
    """A version of the weights as leaves of their own: old ones add to the same sum, and Adam goes on."""
    case = Case(schedule="gpipe", depth=1, optimizer=adam)
    training = Training(case, 0)
    training.step()
    state = training.weights.groups[0]
    old = state.leaves
    new = {name: nn.Parameter(leaf.detach().clone()) for name, leaf in old.items()}
    state.move_to(new)
    state.zero()
    torch.autograd.backward((old["layers.0.0.bias"] + new["layers.0.0.bias"]).sum())
    assert state.gradients()["layers.0.0.bias"].tolist() == [2.0] * 6
    assert isinstance(state.steps, WholeSteps)
    before = {name: leaf.detach().clone() for name, leaf in old.items()}
    state.step()
    assert all(torch.equal(old[name], before[name]) for name in old)
    assert not torch.equal(new["layers.0.0.bias"], before["layers.0.0.bias"])
    assert state.steps.optimizer.state[new["layers.0.0.bias"]]["step"] == 2
    assert not set(old.values()) & set(state.steps.optimizer.state)


def test_replicas_of_one_stage_on_one_rank_share_weights_and_gradients() -> None:
    """Their gradients are one sum, and the weights step once for both."""
    program = Case(schedule="gpipe", depth=1).program()
    groups = ParameterGroups(program.placement, ranks=[[0]])
    held = [HeldStage(pipe, 0, nn.ModuleList([nn.Linear(2, 1, bias=False)]), 0) for pipe in range(2)]
    weights = RankWeights(held, rank=0, groups=groups, optimizer=torch.optim.SGD)
    for one in held:
        torch.autograd.backward(one.layers[0](torch.ones(1, 2)).sum())
    assert weights.gradients()["layers.0.weight"].tolist() == [[2.0, 2.0]]
    weights.groups[0].step()
    first, second = (one.layers[0].weight for one in held)
    assert torch.equal(first, second)


def test_one_process_alone_needs_no_process_group() -> None:
    """D=1, W=1: no collective, and torch.distributed is not even started."""
    case = Case(schedule="gpipe", depth=1, optimizer=adam)
    expected = reference(case, 3)
    for key, value in train(0, 1, case, 3).items():
        assert (value - expected[key.partition(":")[2]]).abs().max() <= 1e-12
