"""What does a config.json say that no plan goes by? A sentence each: nothing is left out in silence."""

from collections.abc import Iterator, Mapping
from typing import Any

from profiles.model import ModelDescription

_HEADS = ("ForCausalLM", "LMHeadModel", "ForPreTraining", "ForMaskedLM", "DoubleHeadsModel")
_STRETCHED = ("rope_scaling", "rope_parameters")
_MOST_QUOTED = 60
_WIDEST_HEAD = 256


def left_out(config: Mapping[str, Any], description: ModelDescription) -> Iterator[str]:
    """Quantized weights, another head than the one over the vocabulary, positions that run out, and capped
    scores or wide heads, which not every fused attention can compute.
    """
    if config.get("quantization_config"):
        yield (
            "the config.json is of quantized weights (quantization_config): what is planned is training of "
            f"all weights in {description.precision}"
        )
    architecture = _first_word(config.get("architectures"))
    if architecture is not None and not architecture.endswith(_HEADS):
        yield (
            f"the config.json is of a {architecture[:_MOST_QUOTED]!r}: what is planned has a head over the "
            "vocabulary and its loss"
        )
    capped = description.family == "gemma2" and config.get("attn_logit_softcapping", True) is not None
    if capped and description.attention == "flash":
        yield (
            "attention scores are capped (attn_logit_softcapping), which flash-attn 2.6 and later can and "
            "torch's scaled_dot_product_attention cannot: with attention eager, as transformers runs this "
            "model unless told otherwise, layers keep their S x S matrices"
        )
    width = config.get("head_dim")
    if isinstance(width, int) and width > _WIDEST_HEAD and description.attention == "flash":
        yield (
            f"heads are {width:,} elements wide (head_dim), and flash kernels end at {_WIDEST_HEAD}: with "
            "attention eager layers keep their S x S matrices"
        )
    most, length = config.get("max_position_embeddings"), description.sequence_length
    stretched = any(config.get(name) for name in _STRETCHED)
    if isinstance(most, int) and not stretched and 0 < most < length:
        yield (
            f"a sequence of {length:,} tokens is longer than the {most:,} positions that the "
            "config.json is made for (max_position_embeddings)"
        )


def _first_word(value: Any) -> str | None:
    first = value[0] if isinstance(value, list) and value else None
    return first if isinstance(first, str) else None
