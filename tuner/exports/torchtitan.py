"""Which options make torchtitan run the choice?

Options of torchtitan 0.3.0 (3 September 2026): `torchtitan/config/configs.py` of its wheel, and
`torchtitan/distributed/pipeline_parallel.py` for how they are read.
"""

from collections.abc import Iterator
from itertools import accumulate, pairwise

from tuner.exports.errors import NotExpressibleError
from tuner.exports.frameworks import preface, runnable
from tuner.plan import Candidate, Chosen, Plan

_SCHEDULES = {
    "gpipe": "GPipe",
    "dapple": "1F1B",
    "interleaved": "Interleaved1F1B",
    "zb_v": "ZBVZeroBubble",
}
"""Names of `torch.distributed.pipelining`; what has none there is read from a CSV."""

_CSV = "chimera_schedule.csv"


def write_torchtitan(plan: Plan, chosen: Chosen) -> str:
    """One option a line under comments, after `--module` and `--config`."""
    candidate = runnable(plan, chosen, "torchtitan")
    _refuse_training(plan)
    comments = [*preface(plan, candidate, "torchtitan"), *_comments(plan, candidate)]
    lines = [f"# {sentence}" for sentence in comments]
    return "\n".join([*lines, *_options(plan, candidate)]) + "\n"


def _refuse_training(plan: Plan) -> None:
    """It trains with Adam, in float32 or bfloat16, and reduces gradients in float32."""
    optimizer, precision = plan.request["optimizer"], plan.model.precision
    if optimizer in {"sgd", "momentum"}:
        raise NotExpressibleError(f"torchtitan has Adam and AdamW, not {optimizer}: plan with optimizer=adam")
    if precision == "float16":
        raise NotExpressibleError(
            "torchtitan has no mixed precision in float16: plan with precision=bfloat16"
        )
    if precision != "float32" and plan.request["gradient_precision"] == "same":
        raise NotExpressibleError(
            f"torchtitan reduces gradients in float32, not in {precision}: plan with "
            "gradient_precision=float32"
        )


def _comments(plan: Plan, candidate: Candidate) -> Iterator[str]:
    yield (
        "Add these after --module and --config of your model, and start "
        f"{candidate.width * candidate.depth:,} ranks; its optimizer stands in that config "
        f"({plan.request['optimizer']} was planned)."
    )
    if _by_csv(candidate):
        yield (
            f"Write {_CSV} first: chimera simulate --schedule {candidate.schedule} --depth {candidate.depth} "
            f"--micro-batches {candidate.micro_batches} --format torch-csv --trace {_CSV}"
        )
    if candidate.depth > 1:
        yield (
            "torchtitan does not tie the head to the embedding over stages: a model that does has to be "
            "untied, and planned so."
        )
    if plan.request["optimizer_sharding"] == "replicas":
        yield (
            "FSDP divides weights and gradients beside the optimizer's state: it needs less memory than was "
            "planned, and gathers the weights once an iteration."
        )
    if plan.model.attention == "eager":
        yield "torchtitan's attention is fused: activations need less memory than was planned."


def _options(plan: Plan, candidate: Candidate) -> Iterator[str]:
    yield f"--parallelism.pipeline_parallel_degree {candidate.depth}"
    yield from _data_parallel(plan, candidate)
    yield "--parallelism.tensor_parallel_degree 1"
    # Per data-parallel rank and forward: a pipeline takes all micro-batches at once, else they are steps.
    together = candidate.micro_batches if candidate.depth > 1 else 1
    if candidate.depth > 1:
        yield from _pipeline(candidate)
    yield f"--training.local_batch_size {candidate.micro_batch_size * together}"
    yield (
        f"--training.global_batch_size "
        f"{candidate.width * candidate.micro_batch_size * candidate.micro_batches}"
    )
    yield f"--training.seq_len {plan.model.sequence_length}"
    yield f"--training.mixed_precision_param {plan.model.precision}"
    # A choice between policies, which comes after the options.
    yield f"activation_checkpoint:{'full' if candidate.recompute == 'layer' else 'none'}"


def _data_parallel(plan: Plan, candidate: Candidate) -> Iterator[str]:
    sharded = plan.request["optimizer_sharding"] == "replicas"
    yield f"--parallelism.data_parallel_replicate_degree {1 if sharded else candidate.width}"
    yield f"--parallelism.data_parallel_shard_degree {candidate.width if sharded else 1}"
    if sharded and candidate.width > 1:
        yield "--parallelism.fsdp_reshard_after_forward never"


def _by_csv(candidate: Candidate) -> bool:
    return candidate.depth > 1 and candidate.schedule not in _SCHEDULES


def _pipeline(candidate: Candidate) -> Iterator[str]:
    if _by_csv(candidate):
        yield "--parallelism.pipeline_parallel_schedule PipelineScheduleMulti"
        yield f"--parallelism.pipeline_parallel_schedule_csv {_CSV}"
    else:
        yield f"--parallelism.pipeline_parallel_schedule {_SCHEDULES[candidate.schedule]}"
    yield f"--parallelism.pipeline_parallel_microbatch_size {candidate.micro_batch_size}"
    # By itself torchtitan counts the embedding and the head as a layer each, and cuts elsewhere.
    yield "--parallelism.module_fqns_per_model_part " + " ".join(_modules(candidate.stage_layers))


def _modules(stage_layers: tuple[int, ...]) -> Iterator[str]:
    """The modules of each stage: `tok_embeddings,layers.0 layers.1,norm,lm_head`."""
    last = len(stage_layers) - 1
    for stage, (start, end) in enumerate(pairwise(accumulate(stage_layers, initial=0))):
        names = [f"layers.{block}" for block in range(start, end)]
        first = ["tok_embeddings"] if stage == 0 else []
        yield ",".join([*first, *names, *(["norm", "lm_head"] if stage == last else [])])
