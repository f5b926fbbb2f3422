"""Mistral: Llama's decoder in which every layer may look back only over a window."""

from dataclasses import replace

from tuner.families.activation import KNOWN
from tuner.families.architecture import Architecture
from tuner.families.decoder import Decoder
from tuner.families.grouping import read_heads, read_layers, read_width
from tuner.families.reading import ConfigReader


def read(config: ConfigReader) -> Architecture:
    """Read a configuration of model_type mistral."""
    width = read_width(config)
    heads = read_heads(config, hidden_size=width, kv_heads=8)
    return Decoder(
        family="mistral",
        hidden_size=width,
        intermediate_size=config.count("intermediate_size", default=14336),
        vocabulary_size=config.count("vocab_size", default=32000),
        block_types=("block",) * read_layers(config),
        attention=replace(heads, window=config.optional_count("sliding_window", default=4096)),
        activation=config.choice("hidden_act", default="silu", among=KNOWN),
        tied=config.flag("tie_word_embeddings", default=False),
    ).architecture()
