"""Which layers does a model run? An embedding, its blocks and a head, each with exactly its own weights.

Any model that `transformers` builds and that calls a list of blocks one after the other is cut the same
way: a layer at an end runs the whole model around borders that stand for the blocks, and stops or begins
there.
"""

import torch
from torch import Tensor, nn

from executor.models.borders import Call, Reached, Shell, wrapped
from executor.models.surroundings import Surroundings


class EmbeddingLayer(nn.Module):
    """Everything before the first block: token ids [B, S] to hidden states [B, S, h]."""

    def __init__(self, shell: Shell) -> None:
        super().__init__()
        self.shell = shell

    def forward(self, tokens: Tensor) -> Tensor:
        """Run the model up to its first block."""
        try:
            self.shell.run(tokens, _stop)
        except Reached as reached:
            return reached.hidden
        raise RuntimeError("the model ended without a call of its first block")


class BlockLayer(nn.Module):
    """One block: hidden states [B, S, h] to hidden states [B, S, h]."""

    def __init__(self, block: nn.Module, index: int, *, surroundings: Surroundings) -> None:
        super().__init__()
        self.block = block
        self._index = index
        self._surroundings = surroundings

    def forward(self, hidden: Tensor) -> Tensor:
        """Call the block as the model calls it."""
        output = self._surroundings.call(self._index, hidden).of(self.block, hidden)
        result: Tensor = output if isinstance(output, Tensor) else output[0]
        return result


class HeadLayer(nn.Module):
    """Everything after the last block: hidden states [B, S, h] to logits [B, S, V].

    BERT's also gives its scores of the next sentence [B, 2].
    """

    def __init__(self, shell: Shell, *, blocks: int, wraps: bool) -> None:
        super().__init__()
        self.shell = shell
        self._last = blocks - 1
        self._wraps = wraps

    def forward(self, hidden: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Run the model from behind its last block; what is before it sees one sample of zeros."""

        def visit(call: Call) -> object:
            given = hidden if call.block == self._last else call.hidden
            return wrapped(given) if self._wraps else given

        tokens = torch.zeros((1, hidden.shape[1]), dtype=torch.long, device=hidden.device)  # [1, S]
        scores = self.shell.run(tokens, visit)
        return scores[0] if len(scores) == 1 else tuple(scores)


def _stop(call: Call) -> object:
    raise Reached(call.hidden)
