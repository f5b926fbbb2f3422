"""Does a loss of micro-batches add up to that of the mini-batch?"""

import pytest
import torch
from torch import nn

from executor.errors import ModelError
from executor.models.loss import Loss, cross_entropy, mean_squared_error, samples
from executor.stages.stage import Stage
from executor.works import Passage, Target
from tests.executor.chain import Chain, Layers, assert_same_gradients


def classifier() -> Layers:
    """Words [B, S] -> logits [B, S, 5]."""
    torch.manual_seed(0)
    return [nn.Embedding(9, 8, dtype=torch.float64), nn.Tanh(), nn.Linear(8, 5, dtype=torch.float64)]


@pytest.mark.parametrize("parts", [1, 2])
def test_words_count_by_how_many_are_valid(parts: int) -> None:
    """Micro-batches of 1, 2, 8 and no valid words: gradients and loss are those of the mean over all 11."""
    words = torch.arange(32).reshape(8, 4) % 9
    targets = torch.full((8, 4), -100)
    targets[0, 0], targets[2, :2], targets[4:6] = 1, 2, torch.arange(8).reshape(2, 4) % 5
    twin = classifier()
    logits = nn.Sequential(*twin)(words)
    expected = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    torch.autograd.backward(expected)
    head = cross_entropy()
    chain = Chain(classifier(), (1,), loss=head)
    found = 0.0
    for m in range(4):
        chain.forward(
            words[2 * m : 2 * m + 2], targets[2 * m : 2 * m + 2], micro_batch=m, total=11.0, parts=parts
        )
    for m in range(4):
        for part in range(parts):
            chain.backward(micro_batch=m, part=part)
        loss = chain.stages[-1].take_loss(Passage(0, m)).item()
        found += head.count(targets[2 * m : 2 * m + 2]) * loss / 11
    assert found == pytest.approx(expected.item(), abs=1e-12)
    assert_same_gradients(chain.layers, twin)


def test_ready_losses_count_what_they_divide_by() -> None:
    """Samples, whatever their size, and valid words; the mean of nothing is 0."""
    targets = torch.tensor([[1, -1], [2, 3]])
    assert mean_squared_error().count(torch.zeros(3, 7)) == samples(torch.zeros(3)) == 3
    assert cross_entropy(-1).count(targets) == 3
    logits = torch.randn(2, 2, 5)
    mean = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
    torch.testing.assert_close(cross_entropy(-1).loss_function((logits,), targets), mean)
    assert cross_entropy(1).loss_function(logits, torch.ones(2, 2, dtype=torch.int64)).item() == 0


def test_a_loss_of_several_numbers_is_refused() -> None:
    """The error has the shape."""
    stage = Stage([nn.Tanh()], loss=Loss(lambda output, target: (output - target) ** 2, samples))
    with pytest.raises(ModelError, match=r"the loss has the shape \[2, 3\]"):
        stage.forward(Passage(0, 0), (torch.ones(2, 3),), target=Target(torch.ones(2, 3), 2.0))


def test_a_loss_of_several_outputs_gets_all_of_them() -> None:
    """The tuple of what the last layer gives."""

    class Two(nn.Module):
        """x and its double."""

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            """[B] -> [B], [B]."""
            return x, 2 * x

    head = Loss(lambda outputs, target: (outputs[0] * outputs[1] - target).mean(), samples)
    stage = Stage([Two()], loss=head)
    value = torch.tensor([1.0, 2.0], requires_grad=True)
    assert stage.forward(Passage(0, 0), (value,), target=Target(torch.zeros(2), 2.0)) == ()
    assert stage.backward(Passage(0, 0), ())[0].tolist() == [2.0, 4.0]
    assert stage.take_loss(Passage(0, 0)).item() == 5.0
