"""What does every (W, D) give? The points of the throughput chart, and the layouts that give nothing."""

from typing import Any

from api.reports.quantities import gigabytes, recompute, schedule
from tuner.plan import Candidate, Layout, Plan


def throughput_chart(plan: Plan) -> dict[str, Any]:
    """What the chart draws: the best of each layout, other candidates, and why nothing fits elsewhere."""
    return {
        "best": [_best(layout) for layout in plan.layouts if layout.throughput_samples_per_s is not None],
        "others": [_other(candidate) for candidate in plan.candidates],
        "none": [
            {"width": layout.width, "depth": layout.depth, "reason": layout.reason or "nothing fits"}
            for layout in plan.layouts
            if layout.throughput_samples_per_s is None
        ],
        "chosen": None if plan.chosen is None else _other(plan.chosen),
    }


def _best(layout: Layout) -> dict[str, Any]:
    words = [
        schedule(layout.schedule or ""),
        f"B = {layout.micro_batch_size}",
        recompute(layout.recompute or "none"),
    ]
    if layout.peak_memory_bytes is not None:
        words.append(f"{gigabytes(layout.peak_memory_bytes)} at most")
    return _point(layout.width, layout.depth, throughput=layout.throughput_samples_per_s, words=words)


def _other(candidate: Candidate) -> dict[str, Any]:
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
