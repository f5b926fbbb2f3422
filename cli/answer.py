"""How is a plan told to people? The answer first, then what it costs, then what to do next."""

from collections import Counter
from collections.abc import Iterator

from cli.compressions import describe_compressions
from cli.explanation import KINDS, explain_plan, layout, memory_parts, provenance
from cli.quantities import count, gigabytes, percent, seconds, table
from tuner.exports.frameworks import FRAMEWORKS
from tuner.plan import Candidate, Chosen, ClusterNote, Plan, Rejected, SmallestChange, WhyNot

SHOWN_CANDIDATES = 10
SHOWN_REASONS = 3
_NOTHING_S = 1e-9
_AS_FAST = 0.0005
"""A difference in throughput that is rounded to nothing."""


def describe(plan: Plan, search_s: float | None, *, explain: bool = False) -> Iterator[str]:
    """Lines for a terminal; `search_s` is None where somebody else searched."""
    yield _question(plan)
    yield ""
    if plan.chosen is None:
        yield from describe_failure(plan)
    else:
        yield from _answer(plan, plan.chosen)
        yield ""
        yield from _candidates(plan, everything=explain)
    if plan.compression:
        yield ""
        yield from describe_compressions(plan.compression)
    if plan.why:
        yield ""
        yield from _why_not(plan.why)
    if explain:
        yield from explain_plan(plan)
    yield ""
    yield provenance(plan)
    yield (
        f"Searched{'' if search_s is None else f' in {seconds(search_s)}'}: "
        f"{plan.candidates_considered:,} fit, {len(plan.rejected):,} were rejected."
    )
    yield _next(plan)


def describe_failure(plan: Plan) -> Iterator[str]:
    """Why there is no answer, and the smallest change that would give one."""
    cluster = plan.cluster
    devices = f"{cluster.devices:,} x {cluster.accelerator}"
    counts = Counter(rejected.kind for rejected in plan.rejected)
    told = ", ".join(f"{number:,} {KINDS[kind]}" for kind, number in counts.most_common())
    if _lacks_memory(plan):
        yield f"Nothing fits on {devices} ({gigabytes(cluster.memory_bytes)} each). Rejected: {told}, such as"
    else:
        yield f"No legal configuration on {devices}. Rejected: {told or 'none'}, such as"
    for rejected in _telling(plan):
        yield f"  {layout(rejected)}: {rejected.reason}"
    if plan.smallest_change is None and _lacks_memory(plan):
        yield "No single change that was tried makes it fit: use more devices, or devices with more memory."
    elif plan.smallest_change is None:
        yield "No single change that was tried makes one legal: allow other schedules, layouts or frameworks."
    else:
        yield from _change(plan.smallest_change, cluster)


def _lacks_memory(plan: Plan) -> bool:
    return any(rejected.kind == "memory" for rejected in plan.rejected)


def _telling(plan: Plan) -> list[Rejected]:
    """One of each kind at least; what does not fit the memory says more than what was never legal."""
    first = {rejected.kind: rejected for rejected in reversed(plan.rejected)}
    shown = sorted(first.values(), key=lambda rejected: rejected.kind != "memory")
    others = sorted(plan.rejected, key=lambda rejected: rejected.kind != "memory")
    more = [rejected for rejected in others if rejected is not first[rejected.kind]]
    shown += more[: max(0, SHOWN_REASONS - len(shown))]
    return sorted(shown, key=lambda rejected: list(first).index(rejected.kind))


def _change(change: SmallestChange, cluster: ClusterNote) -> Iterator[str]:
    yield f"The smallest change that fits: {change.change}."
    yield (
        f"  With W={change.configuration.width} data-parallel x D={change.configuration.depth} pipeline "
        f"the fullest rank needs {gigabytes(change.memory.total_bytes)} of {gigabytes(cluster.memory_bytes)}:"
    )
    yield from memory_parts(change.memory)


def _question(plan: Plan) -> str:
    model, cluster = plan.model, plan.cluster
    return (
        f"{model.name} ({model.family}): {count(model.parameters)} parameters, {model.blocks} blocks, "
        f"sequence {model.sequence_length:,}, {model.precision}, "
        f"on {cluster.devices:,} x {cluster.accelerator} ({cluster.name})"
    )


def _answer(plan: Plan, chosen: Chosen) -> Iterator[str]:
    predicted, parts = chosen.predicted, chosen.predicted.breakdown
    yield f"Run {configuration(chosen)}."
    samples = chosen.micro_batch_size * chosen.micro_batches * chosen.width
    yield (
        f"  Mini-batch: B x N x W = {chosen.micro_batch_size} x {chosen.micro_batches} x {chosen.width} = "
        f"{samples:,} samples."
    )
    yield ""
    yield (
        f"  throughput  {predicted.throughput_samples_per_s:,.1f} samples/s, "
        f"{predicted.tokens_per_s:,.0f} tokens/s, MFU {percent(predicted.mfu)}"
    )
    yield (
        f"  iteration   {seconds(predicted.iteration_s)}: compute {seconds(parts.compute_s)}, bubble "
        f"{seconds(parts.bubble_s)}, p2p {seconds(parts.p2p_s)}, all-reduce {seconds(parts.all_reduce_s)}"
    )
    if predicted.error_bar:
        bar = predicted.error_bar
        yield f"              {percent(bar.coverage)} sure: {seconds(bar.low_s)} to {seconds(bar.high_s)}"
    yield from _memory(plan, chosen)
    yield from _costs(plan)


def _memory(plan: Plan, chosen: Chosen) -> Iterator[str]:
    fullest = max(chosen.memory, key=lambda rank: rank.total_bytes)
    capacity = plan.cluster.memory_bytes
    free = capacity - fullest.total_bytes
    yield (
        f"  memory      rank {fullest.rank} is the fullest with {gigabytes(fullest.total_bytes)} of "
        f"{gigabytes(capacity)}, reserve included; "
        f"{gigabytes(free)} ({percent(free / capacity)}) more is free"
    )
    yield from memory_parts(fullest, indent=14)
    idle = f"{plan.idle_devices:,} idle" if plan.idle_devices else "none idle"
    yield f"  devices     {chosen.width * chosen.depth:,} of {plan.cluster.devices:,} used, {idle}"


def _costs(plan: Plan) -> Iterator[str]:
    if plan.greedy_regret and plan.greedy_best:
        yield (
            f"  greedy      --search exhaustive finds one that is {percent(plan.greedy_regret)} faster: "
            f"{configuration(plan.greedy_best)}"
        )
    elif plan.greedy_choice and plan.chosen:
        greedy, chosen = plan.greedy_choice.predicted, plan.chosen.predicted
        more = chosen.throughput_samples_per_s / greedy.throughput_samples_per_s - 1
        told = f"would choose {configuration(plan.greedy_choice)}; this is {percent(more)} faster"
        yield f"  greedy      {told if more > _AS_FAST else 'finds one that is as fast'}"
    elif plan.greedy_regret is not None and plan.request["search"] == "greedy":
        yield "  greedy      the exhaustive search finds nothing faster"
    if plan.target_cost is not None and plan.request["runs_on"] != "any":
        yield (
            f"  runs on     {plan.request['runs_on']}: the best over all targets would be "
            f"{percent(plan.target_cost)} faster"
        )


def configuration(candidate: Candidate) -> str:
    """A configuration in both vocabularies, as "chimera with W=8 data-parallel x D=4 pipeline, B=8 ..."."""
    if candidate.depth == 1:
        layout = f"W={candidate.width} data-parallel without a pipeline (D=1)"
    else:
        layout = f"{candidate.schedule} with W={candidate.width} data-parallel x D={candidate.depth} pipeline"
    recompute = {
        "none": "no recomputation",
        "stage": "recomputing whole stages",
        "layer": "recomputing every layer",
    }[candidate.recompute]
    extras = [
        f"micro-batch size B={candidate.micro_batch_size}",
        recompute,
        f"{candidate.scaling} for N > D" if candidate.scaling != "direct" else "",
        f"{2 * candidate.pipe_pairs} pipes" if candidate.pipe_pairs > 1 else "",
    ]
    return ", ".join([layout, *filter(None, extras)])


def _candidates(plan: Plan, *, everything: bool) -> Iterator[str]:
    asked = plan.request.get("top", len(plan.candidates))
    most = SHOWN_CANDIDATES if asked == 20 and not everything else asked
    shown = plan.candidates[:most]
    yield f"The best {len(shown)} of {plan.candidates_considered:,} that fit:"
    header = (
        "",
        "schedule",
        "W",
        "D",
        "B",
        "N",
        "recompute",
        "samples/s",
        "iteration",
        "idle",
        "peak memory",
    )
    rows = (
        (
            str(place), candidate.schedule, str(candidate.width), str(candidate.depth),
            str(candidate.micro_batch_size), str(candidate.micro_batches), candidate.recompute,
            f"{candidate.predicted.throughput_samples_per_s:,.1f}", seconds(candidate.predicted.iteration_s),
            percent(candidate.predicted.bubble_ratio), gigabytes(candidate.peak_memory_bytes),
        )
        for place, candidate in enumerate(shown, 1)
    )  # fmt: skip
    yield from table(header, rows)


def _why_not(why: WhyNot) -> Iterator[str]:
    asked = ", ".join(f"{key}={value}" for key, value in why.constraints.items())
    yield f"Why not {asked}? {why.reason}"
    if why.best is None or why.difference_s is None:
        return
    yield f"  The best there is {configuration(why.best)}: {seconds(why.best.predicted.iteration_s)}."
    parts = why.difference_s.model_dump()
    rows = ((name.removesuffix("_s").replace("_", "-"), _signed(value)) for name, value in parts.items())
    yield from table(("part", "against the choice"), [*rows, ("iteration", _signed(sum(parts.values())))])


def _signed(value_s: float) -> str:
    if abs(value_s) < _NOTHING_S:
        return "0"
    return ("+" if value_s >= 0 else "-") + seconds(abs(value_s))


def _next(plan: Plan) -> str:
    if plan.chosen is None:
        change = "make that change, or " if plan.smallest_change else ""
        if _lacks_memory(plan):
            return f"Next: {change}try --optimizer-sharding replicas, --recompute auto or more devices."
        return f"Next: {change}let --schedules, --width, --depth and --runs-on be chosen."
    if FRAMEWORKS["megatron"].runs(plan.chosen):
        return "Next: add --export megatron (or torchtitan, slurm) for launch flags, --explain for reasons."
    return (
        "Next: add --export slurm (or torchrun, env, ...) for a launch script, --runs-on megatron for what "
        "Megatron-LM runs, --explain for the reasons."
    )
