"""What does --explain add? What was rejected, the memory of every rank, and where the numbers come from."""

from collections import defaultdict
from collections.abc import Iterator

from cli.quantities import gigabytes, percent, table
from tuner.plan import Plan, RankMemory, Rejected

_SHOWN_RANKS = 64
KINDS = {
    "memory": "cannot fit in memory",
    "batch": "cannot divide the mini-batch",
    "layout": "cannot be laid out so",
    "target": "cannot run on the target",
    "domain": "cannot run that way",
}


def explain_plan(plan: Plan) -> Iterator[str]:
    """Lines on all that stands behind the answer."""
    yield ""
    yield from _rejections(plan)
    if plan.chosen:
        yield ""
        yield from _ranks(plan, plan.chosen.memory)
        yield ""
        yield f"Blocks per stage: {', '.join(map(str, plan.chosen.stage_layers))}"
        yield (
            "MFU: useful FLOPs (without recomputation) over the peak of the devices used; "
            "idle ones are not counted"
        )
    yield ""
    yield "Where the numbers come from:"
    yield f"  timings   {plan.provenance.timings}: {plan.provenance.timings_source}"
    yield f"  model     {plan.provenance.description}"
    yield f"  links     {plan.provenance.links} ({plan.provenance.cluster})"
    yield f"  software  {plan.provenance.software}"
    for name, digest in plan.provenance.hashes.items():
        yield f"  {name} SHA-256 {digest}"


def provenance(plan: Plan) -> str:
    """One line on where the numbers come from, with what was extrapolated or assumed."""
    origin = plan.provenance
    line = f"Numbers: timings {origin.timings}, links {origin.links}, software {origin.software}"
    return "; ".join([line, *origin.notes]) + "."


def memory_parts(memory: RankMemory, *, indent: int = 4) -> Iterator[str]:
    """The parts of one rank's memory that are not zero, largest first, in lines of four."""
    parts = {
        name.removesuffix("_bytes").replace("_", " "): value
        for name, value in memory.model_dump(exclude={"rank", "total_bytes"}).items()
        if value
    }
    told = [f"{name} {gigabytes(value)}" for name, value in sorted(parts.items(), key=lambda part: -part[1])]
    for start in range(0, len(told), 4):
        yield " " * indent + ", ".join(told[start : start + 4])


def _rejections(plan: Plan) -> Iterator[str]:
    groups: dict[str, list[Rejected]] = defaultdict(list)
    for rejected in plan.rejected:
        groups[rejected.kind].append(rejected)
    yield f"Rejected: {len(plan.rejected):,}"
    for kind, members in groups.items():
        yield f"  {len(members):,} {KINDS[kind]}, such as"
        yield from (f"    {layout(rejected)}: {rejected.reason}" for rejected in members[:3])


def layout(rejected: Rejected) -> str:
    """The configuration that was rejected, as far as it was decided."""
    asked = rejected.configuration
    known = [
        asked.schedule or "any schedule",
        f"W={asked.width}",
        f"D={asked.depth}",
        f"B={asked.micro_batch_size}" if asked.micro_batch_size else "",
        f"recompute={asked.recompute}" if asked.recompute not in {None, "none"} else "",
    ]
    return " ".join(filter(None, known))


def _ranks(plan: Plan, memory: tuple[RankMemory, ...]) -> Iterator[str]:
    capacity = plan.cluster.memory_bytes
    yield f"Memory of the ranks of one pipeline group, of {gigabytes(capacity)} each:"
    columns = [name for name in type(memory[0]).model_fields if name not in {"rank", "total_bytes"}]
    used = [name for name in columns if any(getattr(rank, name) for rank in memory)]
    header = ["rank", *(name.removesuffix("_bytes") for name in used), "total", "full"]
    shown = memory[:_SHOWN_RANKS]
    rows = (
        [
            str(rank.rank),
            *(gigabytes(getattr(rank, name)).removesuffix(" GB") for name in used),
            gigabytes(rank.total_bytes),
            percent(rank.total_bytes / capacity),
        ]
        for rank in shown
    )
    yield from table(header, rows)
    if len(memory) > len(shown):
        yield f"  ... and {len(memory) - len(shown):,} more (--json has them all)"
