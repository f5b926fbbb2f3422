"""What is run with these Megatron-LM flags? The configuration and the training."""

from collections.abc import Iterator
from dataclasses import dataclass

from tuner.imports.errors import ImportedError
from tuner.imports.megatron_flags import Flags
from tuner.imports.megatron_stages import Stages, read_stages

_UNMODELLED = {
    "--context-parallel-size": "context_parallel",
    "--expert-model-parallel-size": "expert_parallel",
}
_OTHER_MODELS = {
    "--num-experts": "mixtures of experts",
    "--multi-latent-attention": "latent attention",
    "--mtp-num-layers": "layers that predict further tokens",
    "--hybrid-layer-pattern": "hybrid models",
    "--hybrid-override-pattern": "hybrid models",
    "--heterogeneous-layers-config-path": "blocks that differ by a file",
}
_UNCOUNTED = (
    "--cpu-offloading",
    "--optimizer-cpu-offload",
    "--fine-grained-activation-offloading",
    "--use-precision-aware-optimizer",
    "--use-torch-fsdp2",
    "--use-megatron-fsdp",
    "--use-custom-fsdp",
    "--fp8-format",
    "--fp4-format",
    "--window-size",
    "--cross-entropy-loss-fusion",
    "--data-parallel-sharding-strategy",
)
"""Change times or memory of the same training."""


@dataclass(frozen=True)
class MegatronRun:
    """One training run as its flags have it."""

    tensor_parallel: int
    sequence_parallel: bool
    depth: int
    stages: Stages
    micro_batch_size: int
    mini_batch_size: int
    recompute: str
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
    def chunks(self) -> int:
        """Stages of each rank."""
        return self.stages.chunks

    @property
    def stage_layers(self) -> tuple[int, ...] | None:
        """Blocks of each stage, where the flags say."""
        return self.stages.blocks

    @property
    def schedule(self) -> str:
        """What Megatron-LM runs with these flags."""
        return "interleaved" if self.chunks > 1 and self.depth > 1 else "dapple"


def read_run(flags: Flags) -> MegatronRun:
    """The run; raises ImportedError for what is missing or not modelled."""
    for flag, option in _UNMODELLED.items():
        if flags.count(flag, default=1) > 1:
            raise ImportedError(f"{flag} {flags.text(flag)} is not modelled yet: only {option}=1 is")
    for flag, noun in _OTHER_MODELS.items():
        # Megatron-DeepSpeed says --num-experts 1 of a model without.
        if flags.has(flag) and flags.text(flag) not in ({"0", "1"} if flag == "--num-experts" else {"0"}):
            raise ImportedError(f"{flag}: {noun} are not modelled yet")
    depth = flags.count("--pipeline-model-parallel-size", default=1)
    stages = read_stages(flags, depth)
    recompute, notes = _recompute(flags, depth * stages.chunks)
    precision = "bfloat16" if flags.has("--bf16") else "float16" if flags.has("--fp16") else "float32"
    return MegatronRun(
        tensor_parallel=flags.count("--tensor-model-parallel-size", default=1),
        sequence_parallel=flags.has("--sequence-parallel"),
        depth=depth,
        stages=stages,
        micro_batch_size=flags.count("--micro-batch-size"),
        mini_batch_size=flags.count("--global-batch-size"),
        recompute=recompute,
        sequence_length=flags.count("--seq-length") if flags.has("--seq-length") else None,
        precision=precision,
        gradient_precision=_gradient_precision(flags, precision),
        optimizer=_optimizer(flags),
        optimizer_sharding="replicas" if _shards(flags) else "none",
        attention=_attention(flags),
        devices=_devices(flags),
        notes=(*flags.doubts, *notes, *_uncounted(flags)),
    )


def _gradient_precision(flags: Flags, precision: str) -> str:
    """Gradients of bf16 are kept in float32 unless told otherwise, those of fp16 only where told."""
    if precision == "float16":
        return "float32" if flags.has("--accumulate-allreduce-grads-in-fp32") else "same"
    return "same" if flags.has("--grad-reduce-in-bf16") else "float32"


def _uncounted(flags: Flags) -> Iterator[str]:
    for flag in _UNCOUNTED:
        if flags.has(flag):
            yield f"{flag} is not modelled: the run is predicted as without it"
    if flags.has("--rampup-batch-size"):
        yield "--rampup-batch-size: the mini-batch is taken as it is at the end of the ramp"
    if flags.has("--max-position-embeddings") and flags.has("--seq-length"):
        most, length = flags.count("--max-position-embeddings"), flags.count("--seq-length")
        if most < length:
            yield (
                f"Megatron-LM refuses a --seq-length of {length:,} beyond --max-position-embeddings "
                f"{most:,}: raise the latter"
            )
    stage = flags.text("--zero-stage")
    if stage in {"2", "3"}:
        yield f"--zero-stage {stage} is not modelled: the run is predicted as with 1"


def _shards(flags: Flags) -> bool:
    """Whether replicas divide the optimizer's state: as Megatron-LM says it, or Megatron-DeepSpeed."""
    return flags.has("--use-distributed-optimizer") or flags.text("--zero-stage") in {"1", "2", "3"}


def _recompute(flags: Flags, stages: int) -> tuple[str, tuple[str, ...]]:
    if _selective(flags):
        told = "selective recomputation is not modelled: it is taken as none, with flash attention"
        return "none", (told,)
    # As releases before 3.0 and Megatron-DeepSpeed have it.
    full = flags.has("--checkpoint-activations", "--activations-checkpoint-method")
    if flags.text("--recompute-granularity") != "full":
        return ("layer" if full else "none"), ()
    if flags.text("--recompute-method") == "block":
        return "layer", ("recomputation of some blocks alone is taken as of all",)
    groups = flags.count("--recompute-num-layers", default=1)
    if groups > 1 and flags.has("--num-layers") and groups * stages >= flags.count("--num-layers"):
        return "stage", ()
    told = f"recomputation in groups of {groups} blocks is taken as by block"
    return "layer", () if groups == 1 else (told,)


def _selective(flags: Flags) -> bool:
    """Whether scores are computed again, which keeps no more of them than a fused attention does."""
    return flags.text("--recompute-granularity") == "selective" or flags.has("--recompute-activations")


def _optimizer(flags: Flags) -> str:
    name = flags.text("--optimizer") or "adam"
    if name == "sgd":
        return "sgd" if flags.text("--sgd-momentum") in {"0", "0.0"} else "momentum"
    if name != "adam":
        raise ImportedError(f"--optimizer {name[:40]} is not modelled: adam and sgd are")
    return "adam"


def _attention(flags: Flags) -> str | None:
    backend = flags.text("--attention-backend")
    if flags.has("--use-flash-attn") or backend in {"flash", "fused", "auto"} or _selective(flags):
        return "flash"
    # Without Transformer Engine there is no fused attention unless one is asked for.
    local = flags.text("--transformer-impl") == "local"
    return "eager" if local or backend in {"unfused", "local"} else None


def _devices(flags: Flags) -> int | None:
    """Nodes times processes, where torchrun's own flags stand in the text as numbers."""
    each, nodes = (flags.values.get(name, "") for name in ("--nproc-per-node", "--nnodes"))
    return int(each) * int(nodes or 1) if each.isdecimal() and (nodes or "1").isdecimal() else None
