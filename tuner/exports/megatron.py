"""Which flags make Megatron-LM run the choice?

Flags of Megatron Core 0.19.2 (September 2026): docs.nvidia.com/megatron-core and, of its wheel,
`megatron/training/arguments.py`.
"""

import shlex
from collections.abc import Iterator

from tuner.exports.errors import NotExpressibleError
from tuner.exports.frameworks import preface, runnable
from tuner.plan import Candidate, Chosen, Plan

_OPTIMIZERS: dict[str, tuple[str, ...]] = {
    "sgd": ("--optimizer sgd", "--sgd-momentum 0.0"),
    "momentum": ("--optimizer sgd", "--sgd-momentum 0.9"),
    # Megatron's adam decouples weight decay, so adam and adamw are one.
    "adam": ("--optimizer adam",),
    "adamw": ("--optimizer adam",),
}


def write_megatron(plan: Plan, chosen: Chosen) -> str:
    """One flag a line under comments; falls back on the best candidate that runs, and says what it costs."""
    candidate = runnable(plan, chosen, "megatron")
    lines = [f"# {sentence}" for sentence in (*preface(plan, candidate, "megatron"), _start(candidate))]
    return "\n".join([*lines, *megatron_flags(plan, candidate)]) + "\n"


def layout(stage_layers: tuple[int, ...]) -> str:
    """Stages as --pipeline-model-parallel-layout reads them: `Et*3|t*4|t*3L` (embedding, blocks, loss).

    With more stages than ranks they are virtual, and go round the ranks in this order.
    """
    stages = [f"t*{count}" if count else "" for count in stage_layers]
    return "|".join(["E" + stages[0], *stages[1:]]) + "L"


def _start(candidate: Candidate) -> str:
    return (
        f"Add these to your model's flags and start {candidate.width * candidate.depth:,} ranks: the "
        f"data-parallel size {candidate.width} follows from the world size, the {candidate.micro_batches} "
        f"micro-batches follow from the batch sizes."
    )


def megatron_flags(plan: Plan, candidate: Candidate, *, tensor_parallel: int = 1) -> Iterator[str]:
    """One flag at a time; where it is not 1, a rank of the plan is a group of `tensor_parallel` devices."""
    batch = candidate.width * candidate.micro_batch_size * candidate.micro_batches
    yield f"--tensor-model-parallel-size {tensor_parallel}"
    yield f"--pipeline-model-parallel-size {candidate.depth}"
    yield f"--num-layers {plan.model.blocks}"
    if candidate.chunks > 1 or len(set(candidate.stage_layers)) > 1:
        yield f"--pipeline-model-parallel-layout {shlex.quote(layout(candidate.stage_layers))}"
    yield f"--seq-length {plan.model.sequence_length}"
    yield f"--micro-batch-size {candidate.micro_batch_size}"
    yield f"--global-batch-size {batch}"
    yield from _recompute_flags(candidate)
    yield from _precision_flags(plan)
    yield f"--attention-backend {'flash' if plan.model.attention == 'flash' else 'unfused'}"
    yield from _optimizer_flags(plan)


def _recompute_flags(candidate: Candidate) -> Iterator[str]:
    if candidate.recompute == "none":
        return
    # `uniform` keeps the input of every group of this many blocks: one block, or a whole stage.
    group = 1 if candidate.recompute == "layer" else max(candidate.stage_layers)
    yield "--recompute-granularity full"
    yield "--recompute-method uniform"
    yield f"--recompute-num-layers {group}"


def _precision_flags(plan: Plan) -> Iterator[str]:
    precision, gradients = plan.model.precision, plan.request["gradient_precision"]
    if precision == "float32":
        return
    yield "--bf16" if precision == "bfloat16" else "--fp16"
    if gradients == "float32":
        yield "--accumulate-allreduce-grads-in-fp32"
    elif precision == "bfloat16":
        yield "--grad-reduce-in-bf16"


def _optimizer_flags(plan: Plan) -> Iterator[str]:
    optimizer = plan.request["optimizer"]
    yield from _OPTIMIZERS[optimizer]
    if plan.request["optimizer_sharding"] == "replicas":
        if optimizer in {"sgd", "momentum"}:
            raise NotExpressibleError(
                f"Megatron-LM's distributed optimizer shards adam alone, not {optimizer}: plan with "
                f"optimizer=adam or optimizer_sharding=none"
            )
        yield "--use-distributed-optimizer"
