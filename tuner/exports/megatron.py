"""Which flags make Megatron-LM run the choice?

Flags of Megatron Core 0.17 (April 2026): docs.nvidia.com/megatron-core and `megatron/training/arguments.py`.
"""

import shlex
from collections.abc import Iterator

from tuner.exports.errors import NotExpressibleError
from tuner.plan import Candidate, Chosen, Plan

VERSION = "Megatron Core 0.17, April 2026"

SCHEDULES = ("dapple", "interleaved")
"""What Megatron-LM runs: 1F1B with a flush, and with virtual stages interleaved 1F1B."""

_OPTIMIZERS: dict[str, tuple[str, ...]] = {
    "sgd": ("--optimizer sgd", "--sgd-momentum 0.0"),
    "momentum": ("--optimizer sgd", "--sgd-momentum 0.9"),
    # Megatron's adam decouples weight decay, so adam and adamw are one.
    "adam": ("--optimizer adam",),
    "adamw": ("--optimizer adam",),
}


def write_megatron(plan: Plan, chosen: Chosen) -> str:
    """One flag a line under comments; falls back on the best candidate that runs, and says what it costs."""
    candidate = chosen if runs(chosen) else _fallback(plan, chosen)
    # A name may hold line breaks, and a comment must not end early.
    lines = [f"# {' '.join(sentence.split())}" for sentence in _comments(plan, candidate)]
    return "\n".join([*lines, *_flags(plan, candidate)]) + "\n"


def runs(candidate: Candidate) -> bool:
    """Whether Megatron-LM has the candidate's schedule; without a pipeline (D=1) there is none to have."""
    return candidate.schedule in SCHEDULES or (candidate.depth == 1 and candidate.pipe_pairs == 1)


def layout(stage_layers: tuple[int, ...]) -> str:
    """Stages as --pipeline-model-parallel-layout reads them: `Et*3|t*4|t*3L` (embedding, blocks, loss).

    With more stages than ranks they are virtual, and go round the ranks in this order.
    """
    stages = [f"t*{count}" if count else "" for count in stage_layers]
    return "|".join(["E" + stages[0], *stages[1:]]) + "L"


def _fallback(plan: Plan, chosen: Chosen) -> Candidate:
    for candidate in plan.candidates:
        if runs(candidate):
            return candidate
    raise NotExpressibleError(
        f"Megatron-LM cannot run the chosen schedule {chosen.schedule}, nor any of the "
        f"{len(plan.candidates):,} candidates listed; plan with runs_on=megatron (--runs-on megatron), which "
        f"considers only what it runs: {', '.join(SCHEDULES)}"
    )


def _comments(plan: Plan, candidate: Candidate) -> Iterator[str]:
    world = candidate.width * candidate.depth
    yield (
        f"{plan.model.name} on {world:,} x {plan.cluster.accelerator}: "
        f"add these to your model's flags ({VERSION})."
    )
    if plan.chosen and candidate is not plan.chosen:
        yield _substitution(plan.chosen, candidate)
    idle = plan.cluster.devices - world
    yield (
        f"Start {world:,} ranks{f' ({idle:,} of the devices stay idle)' if idle else ''}: the data-parallel "
        f"size {candidate.width} follows from the world size, the {candidate.micro_batches} micro-batches "
        f"follow from the batch sizes."
    )


def _substitution(chosen: Chosen, candidate: Candidate) -> str:
    best, here = (each.predicted.throughput_samples_per_s for each in (chosen, candidate))
    return (
        f"The plan's choice, {chosen.schedule} with W={chosen.width} and D={chosen.depth}, cannot run here. "
        f"This is the best candidate that can: {candidate.schedule}, {here:,.1f} samples/s instead of "
        f"{best:,.1f} ({1 - here / best:.1%} less)."
    )


def _flags(plan: Plan, candidate: Candidate) -> Iterator[str]:
    batch = candidate.width * candidate.micro_batch_size * candidate.micro_batches
    yield "--tensor-model-parallel-size 1"
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
