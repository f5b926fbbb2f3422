"""How do the findings of a search read as parts of a plan?"""

from collections.abc import Iterable
from typing import Protocol

from tuner.choice import Choice
from tuner.plan import (
    Breakdown,
    Candidate,
    Chosen,
    ErrorBar,
    Layout,
    LayoutSchedule,
    Prediction,
    RankMemory,
)
from tuner.ranking import Ranked
from tuner.rehearsal import Rehearsed
from tuner.rejection import MemoryRefusal, Refusal
from tuner.space import Layout as Shape


def predict(ranked: Ranked, *, sequence_length: int, sample_flops: int, peak_flops: float) -> Prediction:
    """The prediction of one configuration; peak_flops is the peak of one device at the plan's precision."""
    configuration = ranked.choice.configuration
    throughput = configuration.mini_batch_size / ranked.iteration_s
    devices = configuration.width * configuration.depth
    breakdown = _simulated(ranked.simulated) if ranked.simulated else _closed_form(ranked.choice)
    parts = {name: ranked.factor * seconds for name, seconds in breakdown.model_dump().items()}
    return Prediction(
        iteration_s=ranked.iteration_s,
        closed_form_s=ranked.choice.iteration_s,
        simulated=ranked.simulated is not None,
        throughput_samples_per_s=throughput,
        tokens_per_s=throughput * sequence_length,
        mfu=throughput * sample_flops / (devices * peak_flops),
        bubble_ratio=ranked.simulated.bubble_ratio if ranked.simulated else _bubble_ratio(ranked.choice),
        breakdown=Breakdown(**parts),
    )


def _bubble_ratio(choice: Choice) -> float:
    """1 − Σ busy / (D·iteration) by equation 1."""
    times, i = choice.evaluated.times, choice.index
    return 1 - float(times.mean_work_s[i] + times.update_s[i]) / choice.iteration_s


def _simulated(rehearsed: Rehearsed) -> Breakdown:
    return Breakdown(
        compute_s=rehearsed.compute_s,
        bubble_s=rehearsed.bubble_s,
        p2p_s=rehearsed.p2p_s,
        all_reduce_s=rehearsed.all_reduce_s,
    )


def _closed_form(choice: Choice) -> Breakdown:
    times, i = choice.evaluated.times, choice.index
    return Breakdown(
        compute_s=float(times.work_s[i] + times.update_s[i]),
        bubble_s=float(times.bubble_s[i]),
        p2p_s=float(times.p2p_s[i]),
        all_reduce_s=float(times.all_reduce_s[i]),
    )


class Bars(Protocol):
    """What knows how sure predictions are."""

    def of(self, ranked: Ranked) -> ErrorBar | None:
        """The error bar of a configuration; None where nothing is known of it."""
        ...


class Narrator:
    """Writes configurations as documents, for one model on one device."""

    def __init__(
        self,
        *,
        sequence_length: int,
        sample_flops: int,
        peak_flops: float,
        bars: Bars | None = None,
        compression: str = "none",
    ) -> None:
        self._bars = bars
        self._sequence_length = sequence_length
        self._sample_flops = sample_flops
        self._peak_flops = peak_flops
        self._compression = compression

    def candidate(self, ranked: Ranked) -> Candidate:
        """A configuration without the memory of every rank."""
        choice = ranked.choice
        predicted = predict(
            ranked,
            sequence_length=self._sequence_length,
            sample_flops=self._sample_flops,
            peak_flops=self._peak_flops,
        )
        if self._bars:
            predicted = predicted.model_copy(update={"error_bar": self._bars.of(ranked)})
        return Candidate(
            **choice.configuration.document(),
            stage_layers=choice.evaluated.stages.counts[choice.index],
            predicted=predicted,
            peak_memory_bytes=choice.peak_bytes,
            compression=self._compression,
        )

    def chosen(self, ranked: Ranked) -> Chosen:
        """A configuration with the memory of every rank."""
        return Chosen(**self.candidate(ranked).model_dump(), memory=memory_of(ranked.choice))


def memory_of(choice: Choice) -> tuple[RankMemory, ...]:
    """The memory of every rank of a pipeline group."""
    depth = choice.layout.depth
    return tuple(RankMemory(**choice.evaluated.memory.row(choice.index, rank)) for rank in range(depth))


def fullest_rank(choice: Choice) -> RankMemory:
    """The memory of the rank that needs most."""
    return max(memory_of(choice), key=lambda memory: memory.total_bytes)


def layout_map(
    shapes: list[Shape], fitting: tuple[Ranked, ...], refused: Iterable[Refusal | MemoryRefusal]
) -> tuple[Layout, ...]:
    """The best of every (W, D), or why there is none: a cell each of the throughput map."""
    best: dict[Shape, dict[str, Ranked]] = {}
    for ranked in fitting:
        choice = ranked.choice
        best.setdefault(choice.layout, {}).setdefault(choice.configuration.schedule, ranked)
    reasons: dict[Shape, Refusal | MemoryRefusal] = {}
    for refusal in refused:
        kept = reasons.get(refusal.layout)
        if kept is None or (kept.kind != "memory" and refusal.kind == "memory"):
            reasons[refusal.layout] = refusal
    return tuple(_cell(shape, [*best.get(shape, {}).values()], reasons.get(shape)) for shape in shapes)


def _cell(shape: Shape, schedules: list[Ranked], refusal: Refusal | MemoryRefusal | None) -> Layout:
    if not schedules:
        reason = refusal.reason if refusal else "no schedule was tried here"
        return Layout(width=shape.width, depth=shape.depth, reason=reason)
    entries = tuple(map(_on_layout, schedules))
    return Layout(
        width=shape.width, depth=shape.depth, schedules=entries, **entries[0].model_dump(mode="python")
    )


def _on_layout(ranked: Ranked) -> LayoutSchedule:
    configuration = ranked.choice.configuration
    return LayoutSchedule(
        schedule=configuration.schedule,
        micro_batch_size=configuration.micro_batch_size,
        recompute=configuration.recompute,
        throughput_samples_per_s=configuration.mini_batch_size / ranked.iteration_s,
        peak_memory_bytes=ranked.choice.peak_bytes,
    )
