"""Why this configuration and not another? Sentences and figures from the plan's numbers."""

from collections import Counter
from dataclasses import dataclass

from api.reports.quantities import percent, schedule
from tuner.plan import Breakdown, Candidate, Plan, Rejected

SHOWN_REJECTED = 100

PART_NAMES = {
    "compute": "Compute",
    "bubble": "Pipeline bubble",
    "p2p": "Messages between stages",
    "all_reduce": "Gradient synchronisation",
}
_KINDS = {
    "memory": ("cannot fit in memory", "Too little memory"),
    "batch": ("cannot divide the mini-batch", "The mini-batch does not divide"),
    "layout": ("cannot be laid out so", "Not a legal layout"),
    "target": ("cannot be run by the target", "The target cannot run it"),
    "domain": ("cannot run that way", "Cannot run that way"),
}


@dataclass(frozen=True)
class Share:
    """A part of the iteration; `start` and `width` place it on a bar of length 100."""

    key: str
    label: str
    seconds: float
    share: float
    start: float

    @property
    def width(self) -> float:
        """Length on a bar of 100."""
        return 100 * self.share


@dataclass(frozen=True)
class RejectedGroup:
    """The configurations that were rejected for one kind of reason."""

    kind: str
    title: str
    total: int
    shown: tuple[Rejected, ...]


def layout(candidate: Candidate) -> str:
    """A configuration in a few words."""
    return f"{schedule(candidate.schedule)} on W={candidate.width} × D={candidate.depth}"


def why_chosen(plan: Plan) -> str:
    """The choice against the next best, in a sentence or two."""
    chosen = plan.chosen
    if chosen is None:
        return ""
    told = (
        f"{layout(chosen)} is the fastest of {plan.candidates_considered:,} configurations that fit, "
        f"by {plan.request['search']} search"
    )
    if plan.candidates_considered == 1:
        told = f"{layout(chosen)} is the only configuration that fits"
    runner_up = next((entry for entry in plan.candidates if not _same(entry, chosen)), None)
    if runner_up is not None:
        faster = chosen.predicted.throughput_samples_per_s / runner_up.predicted.throughput_samples_per_s - 1
        told += f": {percent(faster)} faster than the next, {layout(runner_up)}"
        told += f" with B={runner_up.micro_batch_size}"
    return f"{told}. {_where_time_goes(chosen)}"


def shares(breakdown: Breakdown) -> list[Share]:
    """The parts of the iteration in the order in which they are drawn."""
    values = {key: getattr(breakdown, f"{key}_s") for key in PART_NAMES}
    total = sum(values.values()) or 1.0
    found, start = [], 0.0
    for key, value in values.items():
        found.append(Share(key, PART_NAMES[key], value, value / total, start))
        start += 100 * value / total
    return found


def failure(plan: Plan) -> str:
    """What to call it that there is no choice: memory may not be the reason."""
    return (
        "Nothing fits" if any(entry.kind == "memory" for entry in plan.rejected) else "No legal configuration"
    )


def rejected_sentence(plan: Plan) -> str:
    """How many were rejected, and for what."""
    counts = Counter(entry.kind for entry in plan.rejected)
    parts = [f"{number:,} {_KINDS[kind][0]}" for kind, number in counts.most_common()]
    return f"Of the configurations, {len(plan.rejected):,} were rejected: {_join(parts)}." if parts else ""


def rejected_groups(plan: Plan) -> list[RejectedGroup]:
    """The rejected by kind, what is closest to fitting first: memory before arithmetic."""
    groups = []
    for kind, (_, title) in _KINDS.items():
        found = [entry for entry in plan.rejected if entry.kind == kind]
        if found:
            groups.append(RejectedGroup(kind, title, len(found), tuple(found[:SHOWN_REJECTED])))
    return groups


def _where_time_goes(candidate: Candidate) -> str:
    parts = {share.key: share.share for share in shares(candidate.predicted.breakdown)}
    return (
        f"{percent(parts['compute'])} of its iteration is compute; {percent(parts['bubble'])} is pipeline "
        f"bubble, {percent(parts['p2p'])} messages between stages and {percent(parts['all_reduce'])} "
        "gradient synchronisation that no bubble hides."
    )


def _same(one: Candidate, other: Candidate) -> bool:
    excluded = {"predicted", "memory"}
    return one.model_dump(exclude=excluded) == other.model_dump(exclude=excluded)


def _join(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
