"""Small configurations of every family, with and without what a family may vary."""

from typing import Any

_DECODER = {
    "hidden_size": 192,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "intermediate_size": 320,
    "vocab_size": 300,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
}
_OTHER_DECODER = {
    "hidden_size": 128,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 200,
    "vocab_size": 101,
    "pad_token_id": 0,
    "tie_word_embeddings": True,
    "attention_dropout": 0.1,
}
_PLAIN = {
    "hidden_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "intermediate_size": 256,
    "vocab_size": 300,
    "pad_token_id": 0,
}
_OTHER_PLAIN = {
    "hidden_size": 192,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 300,
    "vocab_size": 101,
    "pad_token_id": 0,
}

SMALL: dict[str, tuple[dict[str, Any], ...]] = {
    "gpt2": (
        {"n_embd": 128, "n_head": 4, "n_layer": 2, "vocab_size": 300},
        {"n_embd": 192, "n_head": 2, "n_layer": 2, "vocab_size": 101, "n_inner": 300}
        | {"tie_word_embeddings": False, "resid_pdrop": 0.0, "attn_pdrop": 0.0, "embd_pdrop": 0.0}
        | {"activation_function": "relu"},
    ),
    "bert": (
        _PLAIN,
        _OTHER_PLAIN
        | {"tie_word_embeddings": False, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    ),
    "llama": (_DECODER | {"head_dim": 40}, _OTHER_DECODER | {"attention_bias": True, "mlp_bias": True}),
    "mistral": (_DECODER | {"sliding_window": 24}, _OTHER_DECODER | {"sliding_window": None}),
    "qwen2": (
        _DECODER,
        _OTHER_DECODER | {"use_sliding_window": True, "sliding_window": 24, "max_window_layers": 1},
    ),
    "qwen3": (_DECODER | {"head_dim": 64}, _OTHER_DECODER | {"attention_bias": True, "head_dim": 32}),
    "gemma": (
        _DECODER | {"head_dim": 64, "num_key_value_heads": 1, "tie_word_embeddings": True},
        _OTHER_DECODER | {"head_dim": 32, "attention_bias": True, "tie_word_embeddings": False},
    ),
    "gemma2": (
        _DECODER | {"head_dim": 64, "sliding_window": 24},
        _OTHER_DECODER | {"head_dim": 32, "final_logit_softcapping": None, "attn_logit_softcapping": None},
    ),
    "gemma3_text": (
        _DECODER | {"head_dim": 64, "sliding_window": 24, "num_hidden_layers": 7},
        _OTHER_DECODER | {"head_dim": 32, "final_logit_softcapping": 30.0, "sliding_window_pattern": 2},
    ),
    "phi3": (
        _DECODER,
        _OTHER_DECODER | {"resid_pdrop": 0.1, "sliding_window": 24, "partial_rotary_factor": 0.5},
    ),
    "gpt_neox": (
        _PLAIN,
        _OTHER_PLAIN
        | {"tie_word_embeddings": True, "hidden_dropout": 0.1, "attention_dropout": 0.1}
        | {"use_parallel_residual": False, "rotary_pct": 0.5},
    ),
    "opt": (
        _PLAIN | {"ffn_dim": 256},
        _OTHER_PLAIN
        | {"ffn_dim": 300, "tie_word_embeddings": False, "attention_dropout": 0.1}
        | {"word_embed_proj_dim": 48, "do_layer_norm_before": False},
    ),
}
"""Two small configurations of each family, without `model_type`."""


def small(family: str, index: int = 0) -> dict[str, Any]:
    """One of the small configurations of a family."""
    return {"model_type": family} | SMALL[family][index]
