"""What becomes of running statistics when a mini-batch is cut, and when a forward is run again?"""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from executor.stages.stage import Recompute
from tests.executor.chain import Chain, Layers, assert_same_gradients, reference, samples, tanh_layers

RECOMPUTE: tuple[Recompute, ...] = ("none", "stage", "layer")


def normalised() -> Layers:
    """Batch normalisation between linear layers, float64, the same at every call."""
    layers = tanh_layers(4)
    for place in (2, 5):
        layers.insert(place, nn.BatchNorm1d(16, dtype=torch.float64))
    return layers


@pytest.mark.parametrize("recompute", RECOMPUTE)
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("micro_batches", [1, 4])
def test_statistics_are_those_of_the_micro_batches_in_their_order(
    recompute: Recompute, split: bool, micro_batches: int
) -> None:
    """Updated once for each, also when the forward runs twice; one micro-batch equals plain normalisation."""
    inputs, targets = samples(24)
    twin = normalised()
    for values, target in zip(inputs.chunk(micro_batches), targets.chunk(micro_batches), strict=True):
        torch.autograd.backward(nn.functional.mse_loss(nn.Sequential(*twin)(values), target) / micro_batches)
    chain = Chain(normalised(), (3, 6), recompute=recompute)
    chain.probe(inputs.chunk(micro_batches)[0])
    chain.train(inputs, targets, micro_batches=micro_batches, split=split)
    assert_same_gradients(chain.layers, twin)
    for layer, other in zip(chain.layers, twin, strict=True):
        for (name, buffer), expected in zip(layer.named_buffers(), other.buffers(), strict=True):
            torch.testing.assert_close(buffer, expected, rtol=0, atol=1e-13, msg=name)
    assert chain.layers[2].get_buffer("num_batches_tracked").item() == micro_batches


def test_one_micro_batch_equals_plain_normalisation() -> None:
    """Loss and gradients are those of the whole mini-batch in one graph."""
    inputs, targets = samples(24)
    loss, expected = reference(normalised(), inputs, targets)
    chain = Chain(normalised(), (3, 6))
    assert chain.train(inputs, targets, micro_batches=1) == pytest.approx(loss, abs=1e-12)
    assert_same_gradients(chain.layers, expected)


@pytest.mark.parametrize("recompute", ["stage", "layer"])
def test_a_forward_run_again_reads_the_buffers_of_its_first_run(recompute: Recompute) -> None:
    """Spectral normalisation computes with the vectors that each forward improves."""

    def layers() -> Layers:
        torch.manual_seed(0)
        return [
            parametrizations.spectral_norm(nn.Linear(16, 16, dtype=torch.float64)),
            nn.Tanh(),
            nn.Linear(16, 16, dtype=torch.float64),
        ]

    inputs, targets = samples(24)
    kept, again = Chain(layers(), (2,)), Chain(layers(), (2,), recompute=recompute)
    for chain in (kept, again):
        chain.train(inputs, targets, micro_batches=6)
    assert_same_gradients(again.layers, kept.layers, tolerance=0)
    for one, other in zip(again.layers[0].buffers(), kept.layers[0].buffers(), strict=True):
        assert torch.equal(one, other)
