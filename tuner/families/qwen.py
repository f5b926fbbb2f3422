"""Qwen 2 and 3: Llama's decoder with biases on q, k and v (2) or norms on q and k (3), and optional
windows.
"""

from tuner.families.activation import KNOWN
from tuner.families.architecture import Architecture
from tuner.families.attention import Heads
from tuner.families.decoder import Decoder
from tuner.families.grouping import read_block_types, read_heads, read_layers, read_width
from tuner.families.reading import ConfigReader


def read_qwen2(config: ConfigReader) -> Architecture:
    """Read a configuration of model_type qwen2."""
    width = read_width(config)
    heads = read_heads(config, hidden_size=width, kv_heads=32)
    return _decoder(config, "qwen2", heads, hidden_size=width, qkv_bias=True).architecture()


def read_qwen3(config: ConfigReader) -> Architecture:
    """Read a configuration of model_type qwen3."""
    width = read_width(config)
    heads = read_heads(config, hidden_size=width, kv_heads=32, head_dim=128)
    bias = config.flag("attention_bias", default=False)
    return _decoder(
        config, "qwen3", heads, hidden_size=width, qkv_bias=bias, output_bias=bias, query_key_norms=True
    ).architecture()


def _decoder(
    config: ConfigReader,
    family: str,
    heads: Heads,
    *,
    hidden_size: int,
    qkv_bias: bool,
    output_bias: bool = False,
    query_key_norms: bool = False,
) -> Decoder:
    layers = read_layers(config)
    window = config.optional_count("sliding_window", default=4096)
    if not config.flag("use_sliding_window", default=False):
        window = None
    # 0 is a legal value here: every layer slides.
    first = config.whole("max_window_layers", default=28)
    return Decoder(
        family=family,
        hidden_size=hidden_size,
        intermediate_size=config.count("intermediate_size", default=22016),
        vocabulary_size=config.count("vocab_size", default=151936),
        block_types=read_block_types(
            config, layers, slides=lambda index: window is not None and index >= first
        ),
        attention=heads,
        activation=config.choice("hidden_act", default="silu", among=KNOWN),
        tied=config.flag("tie_word_embeddings", default=False),
        window=window,
        qkv_bias=qkv_bias,
        output_bias=output_bias,
        query_key_norms=query_key_norms,
    )
