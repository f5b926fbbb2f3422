"""Which models have given other pipelines trouble? Small ones of each kind, the same at every call."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tests.executor.equivalence import DOUBLE, WIDTH, net

TOKENS = 12
ENDS = (((0, "weight"), (7, "weight")),)
"""The first and the last of eight layers, whose weights are one."""


class Kept(nn.Module):
    """States [B, h] -> states, a float mask without a gradient, numbers, and flags: all cross every cut."""

    def forward(self, states: Tensor) -> tuple[Tensor, ...]:
        """The numbers are the samples' own, the mask leaves out the lower half of the features."""
        mask = (torch.arange(states.shape[1]) >= states.shape[1] // 2).to(states).expand(len(states), -1)
        numbers = states.detach()[:, 0].mul(1000).long()
        return states, mask, numbers, numbers > 0


class Masked(nn.Module):
    """A linear layer where the mask says so; everything else is handed on as it came."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH, dtype=DOUBLE)

    def forward(self, states: Tensor, mask: Tensor, numbers: Tensor, flags: Tensor) -> tuple[Tensor, ...]:
        """[B, h], [B, h], [B], [B] -> the same."""
        changed = torch.tanh(self.linear(states)) * mask + states * (1 - mask)
        return torch.where(flags[:, None], changed, states), mask, numbers, flags


class Read(nn.Module):
    """States again, to which the numbers that came all the way are added."""

    def forward(self, states: Tensor, mask: Tensor, numbers: Tensor, flags: Tensor) -> Tensor:
        """[B, h], [B, h], [B], [B] -> [B, h]."""
        if not torch.equal(flags, numbers > 0):
            raise ValueError("the flags are not those that were sent with the numbers")
        return states * mask + numbers[:, None] / 1000


class Both(nn.Module):
    """One tensor becomes two."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[B, h] -> [B, h], [B, h]."""
        return x.sin(), x.cos()


class OneOrBoth(nn.Module):
    """Ignores its second input where the first sample begins with a negative number."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH, dtype=DOUBLE)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """[B, h], [B, h] -> [B, h]."""
        mixed: Tensor = self.linear(x)
        return mixed if x[0, 0].item() < 0 else mixed + y


class Hooked(nn.Module):
    """Halves the gradient of a tensor within."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH, dtype=DOUBLE)
        self.second = nn.Linear(WIDTH, WIDTH, dtype=DOUBLE)

    def forward(self, x: Tensor) -> Tensor:
        """[B, h] -> [B, h]."""
        within = self.first(x)
        within.register_hook(lambda gradient: gradient / 2)
        given: Tensor = self.second(within.tanh())
        return given


class BySamples(nn.Module):
    """Gives as many samples as the numbers in them say: what no receiver can know ahead."""

    def forward(self, x: Tensor) -> Tensor:
        """[B, h] -> [b, h]."""
        return x[x[:, 0] >= 0]


class Spare(nn.Module):
    """Has a weight that it does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH, dtype=DOUBLE)
        self.spare = nn.Parameter(torch.ones(3, dtype=DOUBLE))

    def forward(self, x: Tensor) -> Tensor:
        """[B, h] -> [B, h]."""
        return torch.tanh(self.linear(x))


class Fails(nn.Module):
    """Raises whatever comes."""

    def forward(self, x: Tensor) -> Tensor:
        """[B, h] -> nothing."""
        raise ValueError(f"no room for {len(x)} samples")


def tied_ends() -> list[nn.Module]:
    """Tokens [B] -> logits [B, 12], whose embedding and head have one weight."""
    torch.manual_seed(0)
    embedding = nn.Embedding(TOKENS, WIDTH, dtype=DOUBLE)
    head = nn.Linear(WIDTH, TOKENS, bias=False, dtype=DOUBLE)
    head.weight = embedding.weight
    return [embedding, *net(6), head]


def drawing() -> list[nn.Module]:
    """Blocks with dropout, behind an embedding."""
    torch.manual_seed(0)
    blocks = [nn.Sequential(block, nn.Dropout(0.3)) for block in net(6)]
    return [nn.Embedding(TOKENS, WIDTH, dtype=DOUBLE), *blocks, nn.Linear(WIDTH, TOKENS, dtype=DOUBLE)]


def normalised() -> list[nn.Module]:
    """Blocks with batch normalisation."""
    return [nn.Sequential(block, nn.BatchNorm1d(WIDTH, dtype=DOUBLE)) for block in net()]


def masked() -> list[nn.Module]:
    """Four tensors cross every cut, of which one has a gradient."""
    torch.manual_seed(0)
    return [nn.Linear(WIDTH, WIDTH, dtype=DOUBLE), Kept(), *[Masked() for _ in range(5)], Read()]


def ignoring() -> list[nn.Module]:
    """Every other layer may ignore one of its two inputs."""
    torch.manual_seed(0)
    return [layer for _ in range(4) for layer in (Both(), OneOrBoth())]


def frozen_first() -> list[nn.Module]:
    """Three layers that are not trained, then others."""
    return _freeze(net(), (0, 1, 2))


def frozen() -> list[nn.Module]:
    """Nothing is trained."""
    return _freeze(net(), range(8))


def frozen_in_parts() -> list[nn.Module]:
    """Whole layers, and single parameters, that are not trained: first, in the middle, last."""
    layers = _freeze(net(), (2, 3, 7))
    for number in (0, 5):
        next(layers[number].parameters()).requires_grad_(False)
    return layers


def bare_middle() -> list[nn.Module]:
    """Layers without parameters stand where a stage has no others."""
    first, *_, last = net()
    return [first, net()[1], nn.Tanh(), nn.Identity(), net()[4], nn.Tanh(), net()[6], last]


def hooked() -> list[nn.Module]:
    """Gradients are changed by hooks on tensors within layers."""
    torch.manual_seed(0)
    return [Hooked() for _ in range(8)]


def by_samples() -> list[nn.Module]:
    """A layer whose output has a shape that depends on values."""
    return [*net(3), BySamples(), *net(4)]


def spare() -> list[nn.Module]:
    """Every layer has a weight too many."""
    torch.manual_seed(0)
    return [Spare() for _ in range(8)]


def failing() -> list[nn.Module]:
    """The sixth layer raises."""
    return [*net(5), Fails(), *net(2)]


def scalars() -> list[nn.Module]:
    """Four times one number, 1."""
    layers = [nn.Linear(1, 1, bias=False, dtype=DOUBLE) for _ in range(4)]
    for layer in layers:
        nn.init.ones_(layer.weight)
    return list(layers)


def single() -> list[nn.Module]:
    """The usual blocks in float32."""
    return [layer.float() for layer in net()]


def tokens() -> list[tuple[Tensor, Tensor]]:
    """Three mini-batches of numbers to be told from numbers, some of which do not count."""
    return [(_numbers(2 * step), _some(_numbers(2 * step + 1))) for step in range(3)]


def signed() -> list[tuple[Tensor, Tensor]]:
    """Two mini-batches in which every other micro-batch of four begins with a negative number."""
    generator = torch.Generator().manual_seed(3)
    values = torch.randn(2, 2, 96, WIDTH, dtype=DOUBLE, generator=generator)
    sign = torch.where(torch.arange(96) // 24 % 2 == 0, 1.0, -1.0).to(DOUBLE)
    values[:, 0, :, 0] = values[:, 0, :, 0].abs() * sign
    return [(inputs, targets) for inputs, targets in values]


def _numbers(seed: int) -> Tensor:
    return torch.randint(TOKENS, (96,), generator=torch.Generator().manual_seed(seed))


def _some(targets: Tensor) -> Tensor:
    """A third of the first half does not count: denominators differ from micro-batch to micro-batch."""
    return torch.where((torch.arange(96) % 3 == 0) & (torch.arange(96) < 48), -100, targets)


def _freeze(layers: list[nn.Module], numbers: Sequence[int]) -> list[nn.Module]:
    for number in numbers:
        layers[number].requires_grad_(False)
    return layers
