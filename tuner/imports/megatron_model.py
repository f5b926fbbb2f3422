"""Which model do the flags of a Megatron-LM run describe? A config.json of the family that is most like it.

Gated MLPs (--swiglu) are llama, others gpt2 with learned positions and gpt_neox with rotary ones. Defaults
are those of Megatron-LM: a gated MLP is 8/3 as wide as the hidden states, rounded down to a multiple of 64.
"""

from typing import Any

from tuner.imports.errors import ImportedError
from tuner.imports.megatron_flags import Flags

_KNOWN_TOKENIZERS = {"GPT2BPETokenizer": 50_257, "Llama2Tokenizer": 32_000}
_LONGEST = 10**6
_DROPOUT = 0.1


def model_config(flags: Flags) -> dict[str, Any]:
    """The config.json; raises ImportedError for what is missing or of no family that is described."""
    missing = [
        flag for flag in ("--num-layers", "--hidden-size", "--num-attention-heads") if not flags.has(flag)
    ]
    if missing:
        raise ImportedError(
            f"the flags do not describe the model, without {', '.join(missing)}: add what is missing, or "
            "name the model with --model (a preset or a config.json)"
        )
    if flags.has("--swiglu"):
        return _llama(flags)
    _check_plain(flags)
    return _gpt2(flags) if _learns_positions(flags) else _gpt_neox(flags)


def _llama(flags: Flags) -> dict[str, Any]:
    hidden, heads = flags.count("--hidden-size"), flags.count("--num-attention-heads")
    grouped = flags.has("--group-query-attention")
    own = {"head_dim": flags.count("--kv-channels")} if flags.has("--kv-channels") else {}
    return {
        "model_type": "llama",
        **_common(flags),
        "intermediate_size": flags.count("--ffn-hidden-size", default=8 * hidden // 3 // 64 * 64),
        "num_key_value_heads": flags.count("--num-query-groups", default=1) if grouped else heads,
        "max_position_embeddings": flags.count("--max-position-embeddings", default=_LONGEST),
        **own,
    }


def _gpt2(flags: Flags) -> dict[str, Any]:
    dropout = flags.share("--hidden-dropout", default=_DROPOUT)
    return {
        "model_type": "gpt2",
        "n_embd": flags.count("--hidden-size"),
        "n_layer": flags.count("--num-layers"),
        "n_head": flags.count("--num-attention-heads"),
        "n_inner": flags.count("--ffn-hidden-size", default=4 * flags.count("--hidden-size")),
        "n_positions": flags.count("--max-position-embeddings", default=_LONGEST),
        "vocab_size": _vocabulary(flags),
        "tie_word_embeddings": _ties(flags),
        "activation_function": _activation(flags),
        "resid_pdrop": dropout,
        "embd_pdrop": dropout,
        "attn_pdrop": flags.share("--attention-dropout", default=_DROPOUT),
    }


def _gpt_neox(flags: Flags) -> dict[str, Any]:
    return {
        "model_type": "gpt_neox",
        **_common(flags),
        "intermediate_size": flags.count("--ffn-hidden-size", default=4 * flags.count("--hidden-size")),
        "use_parallel_residual": False,
        "rotary_pct": 1.0,
        "hidden_act": _activation(flags),
        "hidden_dropout": flags.share("--hidden-dropout", default=_DROPOUT),
        "attention_dropout": flags.share("--attention-dropout", default=_DROPOUT),
    }


def _common(flags: Flags) -> dict[str, Any]:
    return {
        "hidden_size": flags.count("--hidden-size"),
        "num_hidden_layers": flags.count("--num-layers"),
        "num_attention_heads": flags.count("--num-attention-heads"),
        "vocab_size": _vocabulary(flags),
        "tie_word_embeddings": _ties(flags),
    }


def _check_plain(flags: Flags) -> None:
    """Refuse what only the gated decoder is described with."""
    hidden, heads = flags.count("--hidden-size"), flags.count("--num-attention-heads")
    if flags.has("--group-query-attention") and flags.count("--num-query-groups", default=1) != heads:
        raise ImportedError(
            "--group-query-attention without --swiglu is of no family that is described: leave it out to "
            "compare with full attention, or name a similar model with --model"
        )
    if flags.has("--kv-channels") and flags.count("--kv-channels") * heads != hidden:
        raise ImportedError(
            f"--kv-channels {flags.text('--kv-channels')} times {heads} heads is not --hidden-size {hidden}: "
            "without --swiglu that is of no family that is described. Name a similar model with --model"
        )


def _learns_positions(flags: Flags) -> bool:
    kind = flags.text("--position-embedding-type") or "learned_absolute"
    rotary = flags.has("--use-rotary-position-embeddings", "--no-position-embedding")
    return kind == "learned_absolute" and not rotary


def _activation(flags: Flags) -> str:
    """Fused, gelu keeps its input alone; a squared relu keeps as much as a relu."""
    return "relu" if flags.has("--squared-relu") else "gelu"


def _ties(flags: Flags) -> bool:
    return not flags.has("--untie-embeddings-and-output-weights")


def _vocabulary(flags: Flags) -> int:
    """Words as padded: to a multiple of --make-vocab-size-divisible-by times the tensor-parallel size."""
    if flags.has("--padded-vocab-size"):
        return flags.count("--padded-vocab-size")
    tokenizer = flags.text("--tokenizer-type") or ""
    known = _KNOWN_TOKENIZERS.get(tokenizer)
    if known is None and not flags.has("--vocab-size"):
        raise ImportedError(
            "--vocab-size is missing, and the tokenizer does not tell it: add it to the flags"
        )
    # The tokenizer for made-up data adds its end of document.
    words = flags.count("--vocab-size", default=known) + (tokenizer == "NullTokenizer")
    unit = flags.count("--make-vocab-size-divisible-by", default=128)
    unit *= flags.count("--tensor-model-parallel-size", default=1)
    return -(-words // unit) * unit
