"""Phi-3: Llama's decoder with one projection for q, k and v and one for gate and up."""

from dataclasses import replace

from tuner.families.activation import KNOWN
from tuner.families.architecture import Architecture
from tuner.families.decoder import Decoder
from tuner.families.grouping import check_rotated, read_heads, read_layers, read_width
from tuner.families.reading import ConfigReader


def read(config: ConfigReader) -> Architecture:
    """Read a configuration of model_type phi3; only a part of each head may be rotated."""
    width = read_width(config)
    heads = read_heads(config, hidden_size=width)
    rotated = config.within("rope_parameters", "rope_scaling").fraction(
        "partial_rotary_factor", default=config.fraction("partial_rotary_factor", default=1.0)
    )
    rotary_width = int(heads.head_dim * rotated)
    check_rotated(rotary_width)
    window = config.optional_count("sliding_window", default=None)
    return Decoder(
        family="phi3",
        hidden_size=width,
        intermediate_size=config.count("intermediate_size", default=8192),
        vocabulary_size=config.count("vocab_size", default=32064),
        block_types=("block",) * read_layers(config),
        attention=replace(heads, window=window, heads_first=True),
        activation=config.choice("hidden_act", default="silu", among=KNOWN),
        tied=config.flag("tie_word_embeddings", default=False),
        rotary_width=rotary_width,
        fused=True,
        dropout=config.probability("resid_pdrop", default=0.0),
    ).architecture()
