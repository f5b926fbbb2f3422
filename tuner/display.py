"""How do answers look in a notebook? Small pieces of HTML, without scripts and without a network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from tuner.gantt_cells import Lane, compute_lane

if TYPE_CHECKING:
    from tuner.plan import Candidate, Plan
    from tuner.score import Score
    from tuner.simulation_answer import SimulationAnswer
    from tuner.timeline import Timeline

_SHOWN = 5
_MOST_RANKS, _MOST_OPERATIONS = 64, 4_000
_COLOURS = {
    "F": "#4269d0", "f": "#97bbf5", "B": "#3ca951", "b": "#a4d8ae", "I": "#3ca951", "i": "#a4d8ae",
    "W": "#9c9c9c", "w": "#c9c9c9", "R": "#4269d0", "r": "#97bbf5", "U": "#333", "u": "#333",
}  # fmt: skip


def plan_html(plan: Plan) -> str:
    """The choice in a sentence, and the best candidates."""
    if plan.chosen is None:
        change = f" The smallest change: {plan.smallest_change.change}." if plan.smallest_change else ""
        devices = f"{plan.cluster.devices:,} x {plan.cluster.accelerator}"
        return f"<p>Nothing fits on {escape(devices)}.{escape(change)}</p>"
    chosen, predicted = plan.chosen, plan.chosen.predicted
    told = (
        f"<p><b>{escape(plan.model.name)}</b> on {plan.cluster.devices:,} x "
        f"{escape(plan.cluster.accelerator)}: run <b>{escape(chosen.schedule)}</b> with "
        f"<b>W={chosen.width}</b> data-parallel x <b>D={chosen.depth}</b> pipeline, micro-batch size "
        f"<b>B={chosen.micro_batch_size}</b>: {predicted.throughput_samples_per_s:,.1f} samples/s, "
        f"{predicted.tokens_per_s:,.0f} tokens/s, MFU {predicted.mfu:.1%}.</p>"
    )
    header = ("schedule", "W", "D", "B", "N", "recompute", "samples/s", "bubble", "peak memory")
    return told + _table(header, map(_candidate, plan.candidates[:_SHOWN]))


def score_html(score: Score) -> str:
    """The errors, and the rows with their signs."""
    share = "none" if score.mape is None else f"{score.mape:.1%}"
    rows = (
        (
            str(row.model),
            _configured(row.configuration),
            f"{row.predicted:.4g}",
            f"{row.measured:.4g}",
            f"{row.error:+.1%}",
        )
        for row in score.rows[: 4 * _SHOWN]
    )
    told = f"<p>{score.count:,} measurements, mean absolute error <b>{share}</b>.</p>"
    return told + _table(("model", "configuration", "predicted", "measured", "error"), rows)


def simulation_html(answer: SimulationAnswer, timeline: Timeline) -> str:
    """The figures, and the timeline of what is not too large to draw."""
    told = (
        f"<p><b>{escape(answer.schedule)}</b> D={answer.depth}, N={answer.micro_batches}: makespan "
        f"<b>{answer.makespan:g}</b>, bubble ratio <b>{answer.bubble_ratio:.1%}</b>, at most "
        f"{max(answer.peak_live_micro_batches):g} micro-batches alive.</p>"
    )
    if answer.depth > _MOST_RANKS or answer.operations > _MOST_OPERATIONS:
        return told
    return told + _svg([compute_lane(timeline, rank) for rank in range(answer.depth)], timeline.makespan_s)


def _configured(configuration: Mapping[str, str | int]) -> str:
    names = {"width": "W", "depth": "D", "micro_batch_size": "B"}
    sizes = [f"{sign}={configuration[name]}" for name, sign in names.items() if name in configuration]
    return " ".join([str(configuration.get("schedule", "")), *sizes])


def _candidate(candidate: Candidate) -> tuple[str, ...]:
    return (
        candidate.schedule,
        *map(str, (candidate.width, candidate.depth, candidate.micro_batch_size, candidate.micro_batches)),
        candidate.recompute,
        f"{candidate.predicted.throughput_samples_per_s:,.1f}",
        f"{candidate.predicted.bubble_ratio:.1%}",
        f"{candidate.peak_memory_bytes / 1e9:.1f} GB",
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _svg(lanes: list[Lane], makespan: float) -> str:
    """A bar for each operation, a row for each rank; hovering tells which it is."""
    width, height, label = 900.0, 18, 52
    scale = width / makespan
    bars = [
        f'<rect x="{label + cell.start * scale:.2f}" y="{rank * height}" '
        f'width="{(cell.end - cell.start) * scale:.2f}" height="{height - 2}" '
        f'fill="{_COLOURS.get(cell.letters[0], "#999")}" stroke="#fff" stroke-width="0.5">'
        f"<title>{cell.letters}{cell.number}: {cell.start:g} to {cell.end:g}</title></rect>"
        for rank, lane in enumerate(lanes)
        for cell in lane
    ]
    names = [
        f'<text x="0" y="{rank * height + 12}" font-size="11" fill="currentColor">rank {rank}</text>'
        for rank in range(len(lanes))
    ]
    size = f'width="{label + width:.0f}" height="{len(lanes) * height}"'
    return f'<svg {size} role="img" aria-label="timeline">{"".join(names + bars)}</svg>'
