"""Gemma: wide heads and norms counted from 1; from Gemma 2 on norms before and after each half, and local and
global layers in turn.
"""

from dataclasses import replace

from tuner.families.activation import KNOWN
from tuner.families.architecture import Architecture
from tuner.families.decoder import Decoder
from tuner.families.grouping import read_block_types, read_heads, read_layers, read_width
from tuner.families.reading import ConfigReader


def read_gemma(config: ConfigReader) -> Architecture:
    """Read a configuration of model_type gemma, the first: all layers global, norms before each half."""
    config.refuse("use_bidirectional_attention", because="only causal attention is described")
    width = read_width(config)
    bias = config.flag("attention_bias", default=False)
    return Decoder(
        family="gemma",
        hidden_size=width,
        intermediate_size=config.count("intermediate_size", default=24_576),
        vocabulary_size=config.count("vocab_size", default=256_000),
        block_types=("block",) * read_layers(config),
        attention=read_heads(config, hidden_size=width, heads=16, kv_heads=16, head_dim=256),
        activation=config.choice("hidden_act", default="gelu_pytorch_tanh", among=KNOWN),
        tied=config.flag("tie_word_embeddings", default=True),
        qkv_bias=bias,
        output_bias=bias,
        shifted_norms=True,
    ).architecture()


def read_gemma2(config: ConfigReader) -> Architecture:
    """Read a configuration of model_type gemma2: scores pass a tanh, every other layer is local."""
    decoder = _decoder(config, "gemma2", period=2)
    capped = config.number("attn_logit_softcapping", default=50.0) is not None
    final = config.number("final_logit_softcapping", default=30.0) is not None
    heads = replace(decoder.attention, softcap=capped)
    return replace(decoder, attention=heads, capped_scores=final).architecture()


def read_gemma3(config: ConfigReader) -> Architecture:
    """Read a configuration of model_type gemma3_text: q and k are normalized, five layers in six are
    local.
    """
    config.refuse("use_bidirectional_attention", because="only causal attention is described")
    period = config.count("sliding_window_pattern", "_sliding_window_pattern", default=6)
    final = config.number("final_logit_softcapping", default=None) is not None
    decoder = _decoder(config, "gemma3_text", period=period)
    return replace(decoder, query_key_norms=True, capped_scores=final).architecture()


def _decoder(config: ConfigReader, family: str, *, period: int) -> Decoder:
    width = read_width(config)
    bias = config.flag("attention_bias", default=False)
    words = 256_000 if family == "gemma2" else 262_208
    return Decoder(
        family=family,
        hidden_size=width,
        intermediate_size=config.count("intermediate_size", default=9216),
        vocabulary_size=config.count("vocab_size", default=words),
        block_types=read_block_types(
            config, read_layers(config), slides=lambda index: (index + 1) % period != 0
        ),
        attention=read_heads(config, hidden_size=width, heads=8, kv_heads=4, head_dim=256),
        activation=config.choice("hidden_activation", default="gelu_pytorch_tanh", among=KNOWN),
        tied=config.flag("tie_word_embeddings", default=True),
        window=config.optional_count("sliding_window", default=4096),
        qkv_bias=bias,
        output_bias=bias,
        shifted_norms=True,
        norms_after=True,
    )
