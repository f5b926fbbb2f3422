"""Llama 2 and 3: the plain gated decoder."""

from tuner.families.activation import KNOWN
from tuner.families.architecture import Architecture
from tuner.families.decoder import Decoder
from tuner.families.grouping import read_heads, read_layers, read_width
from tuner.families.reading import ConfigReader


def read(config: ConfigReader) -> Architecture:
    """Read a configuration of model_type llama."""
    width = read_width(config)
    bias = config.flag("attention_bias", default=False)
    return Decoder(
        family="llama",
        hidden_size=width,
        intermediate_size=config.count("intermediate_size", default=11008),
        vocabulary_size=config.count("vocab_size", default=32000),
        block_types=("block",) * read_layers(config),
        attention=read_heads(config, hidden_size=width),
        activation=config.choice("hidden_act", default="silu", among=KNOWN),
        tied=config.flag("tie_word_embeddings", default=False),
        qkv_bias=bias,
        output_bias=bias,
        mlp_bias=config.flag("mlp_bias", default=False),
    ).architecture()
