"""What does every (W, D) give? The points of the throughput chart, and what gives nothing there, and why."""

from collections import defaultdict
from typing import Any

from api.reports.quantities import gigabytes, recompute, schedule
from tuner.plan import Candidate, Layout, LayoutSchedule, Plan

_KINDS = {
    "memory": "does not fit",
    "batch": "the mini-batch does not divide",
    "layout": "not legal",
    "target": "not run by the target",
    "domain": "cannot run that way",
}


def throughput_chart(plan: Plan) -> dict[str, Any]:
    """What the chart draws: the best of each layout, other candidates, and why nothing fits elsewhere."""
    missing = _missing(plan)
    return {
        "best": [
            _best(layout, missing.get((layout.width, layout.depth), ""))
            for layout in plan.layouts
            if layout.throughput_samples_per_s is not None
        ],
        "others": _others(plan),
        "none": [
            {"width": layout.width, "depth": layout.depth, "reason": layout.reason or "nothing fits"}
            for layout in plan.layouts
            if layout.throughput_samples_per_s is None
        ],
        "chosen": None if plan.chosen is None else _candidate(plan.chosen),
    }


def _missing(plan: Plan) -> dict[tuple[int, int], str]:
    """Of every layout on which something fits: which schedules do not, by the kind of reason."""
    fitting = {
        (layout.width, layout.depth): {entry.schedule for entry in layout.schedules}
        for layout in plan.layouts
    }
    found: dict[tuple[int, int], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for rejected in plan.rejected:
        ran = rejected.configuration
        place, name = (ran.width, ran.depth), ran.schedule
        names = found[place][rejected.kind]
        if name and fitting.get(place) and name not in fitting[place] and schedule(name) not in names:
            names.append(schedule(name))
    return {
        place: "; ".join(f"{_KINDS[kind]}: {', '.join(names)}" for kind, names in kinds.items() if names)
        for place, kinds in found.items()
    }


def _best(layout: Layout, missing: str) -> dict[str, Any]:
    words = [
        schedule(layout.schedule or ""),
        f"B = {layout.micro_batch_size}",
        recompute(layout.recompute or "none"),
    ]
    if layout.peak_memory_bytes is not None:
        words.append(f"{gigabytes(layout.peak_memory_bytes)} at most")
    point = _point(layout.width, layout.depth, throughput=layout.throughput_samples_per_s, words=words)
    return point | {"missing": missing} if missing else point


def _others(plan: Plan) -> list[dict[str, Any]]:
    """Every schedule at its best on every layout, and the candidates of the list, each point once."""
    points = [_on_layout(layout, entry) for layout in plan.layouts for entry in layout.schedules[1:]] + [
        _candidate(candidate) for candidate in plan.candidates
    ]
    named = {(point["width"], point["depth"], point["words"]): point for point in points}
    return list(named.values())


def _on_layout(layout: Layout, entry: LayoutSchedule) -> dict[str, Any]:
    words = [
        schedule(entry.schedule),
        f"B = {entry.micro_batch_size}",
        recompute(entry.recompute),
        f"{gigabytes(entry.peak_memory_bytes)} at most",
    ]
    return _point(layout.width, layout.depth, throughput=entry.throughput_samples_per_s, words=words)


def _candidate(candidate: Candidate) -> dict[str, Any]:
    words = [
        schedule(candidate.schedule),
        f"B = {candidate.micro_batch_size}",
        recompute(candidate.recompute),
        f"{gigabytes(candidate.peak_memory_bytes)} at most",
    ]
    return _point(
        candidate.width, candidate.depth, throughput=candidate.predicted.throughput_samples_per_s, words=words
    )


def _point(width: int, depth: int, *, throughput: float | None, words: list[str]) -> dict[str, Any]:
    return {"width": width, "depth": depth, "throughput": throughput, "words": ", ".join(words)}
