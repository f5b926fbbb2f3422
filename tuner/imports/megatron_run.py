"""What is run with these Megatron-LM flags? The model, the configuration, and the training."""

import re
from dataclasses import dataclass
from typing import Any

from tuner.imports.errors import ImportedError
from tuner.imports.megatron_flags import Flags

_UNMODELLED = {
    "--context-parallel-size": "context_parallel",
    "--expert-model-parallel-size": "expert_parallel",
}
_MOST_STAGES = 10_000


@dataclass(frozen=True)
class MegatronRun:
    """One training run as its flags have it."""

    tensor_parallel: int
    sequence_parallel: bool
    depth: int
    chunks: int
    """Stages of each rank."""
    micro_batch_size: int
    mini_batch_size: int
    recompute: str
    stage_layers: tuple[int, ...] | None
    """Blocks of each stage, where the flags say."""
    sequence_length: int | None
    precision: str
    gradient_precision: str
    optimizer: str
    optimizer_sharding: str
    attention: str | None
    devices: int | None
    """Where the command that starts it says."""
    notes: tuple[str, ...]

    @property
    def schedule(self) -> str:
        """What Megatron-LM runs with these flags."""
        return "interleaved" if self.chunks > 1 and self.depth > 1 else "dapple"


def read_run(flags: Flags) -> MegatronRun:
    """The run; raises ImportedError for what is missing or not modelled."""
    for flag, option in _UNMODELLED.items():
        if flags.count(flag, default=1) > 1:
            raise ImportedError(f"{flag} {flags.text(flag)} is not modelled yet: only {option}=1 is")
    depth = flags.count("--pipeline-model-parallel-size", default=1)
    stages = _stages(flags, depth)
    recompute, notes = _recompute(flags)
    return MegatronRun(
        tensor_parallel=flags.count("--tensor-model-parallel-size", default=1),
        sequence_parallel=flags.has("--sequence-parallel"),
        depth=depth,
        chunks=_chunks(flags, depth, stages),
        micro_batch_size=flags.count("--micro-batch-size"),
        mini_batch_size=flags.count("--global-batch-size"),
        recompute=recompute,
        stage_layers=stages,
        sequence_length=flags.count("--seq-length") if flags.has("--seq-length") else None,
        precision="bfloat16" if flags.has("--bf16") else "float16" if flags.has("--fp16") else "float32",
        gradient_precision="same" if flags.has("--grad-reduce-in-bf16") else "float32",
        optimizer=_optimizer(flags),
        optimizer_sharding="replicas" if flags.has("--use-distributed-optimizer") else "none",
        attention=_attention(flags),
        devices=_devices(flags),
        notes=notes,
    )


def _stages(flags: Flags, depth: int) -> tuple[int, ...] | None:
    text = flags.text("--pipeline-model-parallel-layout")
    if text is None:
        return None
    counts = read_layout(text)
    if len(counts) % depth:
        raise ImportedError(
            f"--pipeline-model-parallel-layout has {len(counts)} stages, which {depth} ranks do not divide"
        )
    return counts


def read_layout(text: str) -> tuple[int, ...]:
    """Blocks of each stage of a --pipeline-model-parallel-layout, as Megatron-LM unrolls it."""
    plain = text.replace(",", "").strip()
    for pattern in (r"\(([^()]*)\)\*(\d{1,5})", r"([EtmL|])\*(\d{1,5})"):
        plain = re.sub(pattern, lambda match: match[1] * min(int(match[2]), _MOST_STAGES), plain)
        if len(plain) > 100 * _MOST_STAGES:
            raise ImportedError("--pipeline-model-parallel-layout unrolls to too many stages")
    if not re.fullmatch(r"E[t|m]*L", plain) or "m" in plain:
        raise ImportedError(
            f"--pipeline-model-parallel-layout {text[:80]!r} is not of E, t, | and L, as in Et*3|t*4|t*3L"
        )
    return tuple(stage.count("t") for stage in plain.split("|"))


def _chunks(flags: Flags, depth: int, stages: tuple[int, ...] | None) -> int:
    if stages is not None:
        return len(stages) // depth
    if flags.has("--num-virtual-stages-per-pipeline-rank"):
        return flags.count("--num-virtual-stages-per-pipeline-rank")
    if flags.has("--num-layers-per-virtual-pipeline-stage"):
        each = flags.count("--num-layers-per-virtual-pipeline-stage") * depth
        return max(1, flags.count("--num-layers") // each)
    return 1


def _recompute(flags: Flags) -> tuple[str, tuple[str, ...]]:
    if flags.text("--recompute-granularity") == "selective" or flags.has("--recompute-activations"):
        told = "selective recomputation is not modelled: it is taken as none, with flash attention"
        return "none", (told,)
    if flags.text("--recompute-granularity") != "full":
        return "none", ()
    if flags.text("--recompute-method") == "block":
        return "layer", ("recomputation of some blocks alone is taken as of all",)
    groups = flags.count("--recompute-num-layers", default=1)
    told = f"recomputation in groups of {groups} blocks is taken as by block"
    return "layer", () if groups == 1 else (told,)


def _optimizer(flags: Flags) -> str:
    name = flags.text("--optimizer") or "adam"
    if name == "sgd":
        return "sgd" if flags.text("--sgd-momentum") in {"0", "0.0"} else "momentum"
    if name != "adam":
        raise ImportedError(f"--optimizer {name[:40]} is not modelled: adam and sgd are")
    return "adam"


def _attention(flags: Flags) -> str | None:
    backend = flags.text("--attention-backend")
    if flags.has("--use-flash-attn") or backend in {"flash", "fused", "auto"}:
        return "flash"
    return "eager" if backend in {"unfused", "local"} else None


def _devices(flags: Flags) -> int | None:
    """Nodes times processes, where torchrun's own flags stand in the text as numbers."""
    each, nodes = (flags.values.get(name, "") for name in ("--nproc-per-node", "--nnodes"))
    return int(each) * int(nodes or 1) if each.isdecimal() and (nodes or "1").isdecimal() else None


def model_config(flags: Flags) -> dict[str, Any]:
    """The model as a config.json of the family that its flags describe: llama with --swiglu, else gpt2."""
    if flags.has("--num-experts"):
        raise ImportedError("--num-experts: mixtures of experts are not modelled yet")
    missing = [
        flag for flag in ("--num-layers", "--hidden-size", "--num-attention-heads") if not flags.has(flag)
    ]
    if missing:
        raise ImportedError(
            f"the flags do not describe the model, without {', '.join(missing)}: add what is missing, or "
            "name the model with --model (a preset or a config.json)"
        )
    hidden, heads = flags.count("--hidden-size"), flags.count("--num-attention-heads")
    layers, vocabulary = flags.count("--num-layers"), _vocabulary(flags)
    untied = flags.has("--untie-embeddings-and-output-weights")
    inner = flags.count("--ffn-hidden-size", default=4 * hidden)
    if not flags.has("--swiglu"):
        return {
            "model_type": "gpt2", "n_embd": hidden, "n_layer": layers, "n_head": heads, "n_inner": inner,
            "vocab_size": vocabulary, "n_positions": flags.count("--max-position-embeddings", default=10**6),
            "tie_word_embeddings": not untied,
        }  # fmt: skip
    grouped = flags.has("--group-query-attention")
    return {
        "model_type": "llama", "hidden_size": hidden, "num_hidden_layers": layers, "intermediate_size": inner,
        "num_attention_heads": heads, "vocab_size": vocabulary, "tie_word_embeddings": not untied,
        "num_key_value_heads": flags.count("--num-query-groups") if grouped else heads,
        "max_position_embeddings": flags.count("--max-position-embeddings", default=10**6),
    }  # fmt: skip


_KNOWN_TOKENIZERS = {"GPT2BPETokenizer": 50_257, "Llama2Tokenizer": 32_000}


def _vocabulary(flags: Flags) -> int:
    """Words as padded: to a multiple of --make-vocab-size-divisible-by times the tensor-parallel size."""
    if flags.has("--padded-vocab-size"):
        return flags.count("--padded-vocab-size")
    known = _KNOWN_TOKENIZERS.get(flags.text("--tokenizer-type") or "")
    if known is None and not flags.has("--vocab-size"):
        raise ImportedError(
            "--vocab-size is missing, and the tokenizer does not tell it: add it to the flags"
        )
    words = flags.count("--vocab-size", default=known)
    unit = flags.count("--make-vocab-size-divisible-by", default=128)
    unit *= flags.count("--tensor-model-parallel-size", default=1)
    return -(-words // unit) * unit
