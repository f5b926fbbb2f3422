"""Are random numbers those of the layer and the micro-batch, whatever the layout and the schedule?"""

import pytest
import torch
from torch import nn

from executor.stages.seeding import layer_seed, seed_layer
from executor.stages.stage import Recompute
from executor.values import as_tensors
from tests.executor.chain import Chain, Layers, assert_same_gradients, samples, tanh_layers


def dropping() -> Layers:
    """A dropout behind every pair."""
    layers = tanh_layers(4)
    for place in (8, 6, 4, 2):
        layers.insert(place, nn.Dropout(0.3))
    return layers


@pytest.mark.parametrize("recompute", ["none", "stage", "layer"])
@pytest.mark.parametrize("cuts", [(), (3,), (1, 3, 4, 9)])
@pytest.mark.parametrize("split", [False, True])
def test_masks_depend_neither_on_layout_nor_on_recomputation(
    recompute: Recompute, cuts: tuple[int, ...], split: bool
) -> None:
    """Gradients and loss are those of one process that seeds each layer the same way."""
    inputs, targets = samples(24)
    twin = dropping()
    expected_loss = 0.0
    for m, (value, target) in enumerate(zip(inputs.chunk(4), targets.chunk(4), strict=True)):
        values: tuple[torch.Tensor, ...] = (value,)
        for number, layer in enumerate(twin):
            seed_layer(7, iteration=0, micro_batch=m, part=0, layer=number)
            values = as_tensors(layer(*values))
        loss = nn.functional.mse_loss(values[0], target)
        torch.autograd.backward(loss / 4)
        expected_loss += loss.item() / 4
    chain = Chain(dropping(), cuts, recompute=recompute, seed=7)
    torch.manual_seed(hash(cuts) % 1000)  # what was drawn before does not matter
    assert chain.train(inputs, targets, micro_batches=4, split=split) == pytest.approx(
        expected_loss, abs=1e-12
    )
    assert_same_gradients(chain.layers, twin)


@pytest.mark.parametrize("recompute", ["stage", "layer"])
def test_halves_draw_masks_of_their_own_and_the_same_again(recompute: Recompute) -> None:
    """With recomputation the gradients of halved micro-batches are equal to the bit."""
    inputs, targets = samples(24)
    kept, again = Chain(dropping(), (5,)), Chain(dropping(), (5,), recompute=recompute)
    losses = {chain.train(inputs, targets, micro_batches=3, parts=2) for chain in (kept, again)}
    assert len(losses) == 1
    assert_same_gradients(again.layers, kept.layers, tolerance=0)


def test_every_place_has_a_seed_of_its_own() -> None:
    """No two of run, iteration, micro-batch, part and layer share one."""
    seeds = {
        layer_seed(run, iteration=iteration, micro_batch=m, part=part, layer=layer)
        for run in range(3)
        for iteration in range(4)
        for m in range(8)
        for part in range(2)
        for layer in range(16)
    }
    assert len(seeds) == 3 * 4 * 8 * 2 * 16
    assert all(0 <= seed < 2**63 for seed in seeds)
