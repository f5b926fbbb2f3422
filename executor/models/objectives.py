"""What is a language model trained on, and with which data when none is given?

Mean cross-entropies in float32 at least, as `transformers` takes them. Synthetic samples depend on the seed
alone.
"""

from typing import Any

import torch
from torch import Tensor

from executor.models.loss import Loss, cross_entropy

IGNORED = -100
MASKED_SHARE = 0.15
"""Words of a BERT sample that are to be found again (Devlin et al., NAACL 2019, section 3.1)."""


def next_token() -> Loss:
    """Mean over the words of targets [B, S], which stand where they are predicted; logits [B, S, V]."""
    mean = cross_entropy(IGNORED)
    return Loss(lambda logits, targets: mean.function(_wide(logits), targets), mean.count)


def bert_pretraining() -> Loss:
    """The mean over the masked words of targets[:, :S], and where there is a column S, over next sentences.

    Output: logits [B, S, V] and scores [B, 2]. The sum of two means adds up over micro-batches exactly where
    every sample has equally many masked words, as those of `masked_words` do; the denominator counts all
    targets.
    """
    mean = cross_entropy(IGNORED)

    def function(output: Any, targets: Tensor) -> Tensor:
        logits, scores = output
        length = logits.shape[1]
        loss = mean.function(_wide(logits), targets[:, :length])
        if targets.shape[1] > length:
            loss = loss + mean.function(_wide(scores), targets[:, length])
        return loss

    return Loss(function, mean.count)


def following_words(
    samples: int, *, sequence_length: int, vocabulary_size: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Tokens [samples, S] and the token after each [samples, S]."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(vocabulary_size, (samples, sequence_length + 1), generator=generator)
    return words[:, :-1].contiguous(), words[:, 1:].contiguous()


def masked_words(
    samples: int, *, sequence_length: int, vocabulary_size: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Tokens [samples, S] with words replaced; targets [samples, S + 1]: those words, then the sentence."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(vocabulary_size, (samples, sequence_length), generator=generator)
    others = torch.randint(vocabulary_size, (samples, sequence_length), generator=generator)
    masked = max(1, round(MASKED_SHARE * sequence_length))
    order = torch.rand(samples, sequence_length, generator=generator).argsort(dim=1)
    chosen = order < masked  # [samples, S], `masked` of each row
    targets = torch.where(chosen, words, IGNORED)
    sentences = torch.randint(2, (samples, 1), generator=generator)
    return torch.where(chosen, others, words), torch.cat([targets, sentences], dim=1)


def _wide(logits: Tensor) -> Tensor:
    return logits if logits.dtype == torch.float64 else logits.float()
