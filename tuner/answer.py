"""How do the findings of a search read as parts of a plan?"""

from profiles.device import Accelerator
from tuner.plan import Breakdown, Candidate, Chosen, Layout, Prediction, RankMemory
from tuner.rejection import MemoryRefusal, Refusal
from tuner.search import Choice, Found
from tuner.space import Layout as Shape


def predict(choice: Choice, *, sequence_length: int, sample_flops: int, peak_flops: float) -> Prediction:
    """The prediction of one configuration; peak_flops is the peak of one device at the plan's precision."""
    times, i = choice.evaluated.times, choice.index
    configuration = choice.evaluated.configuration(i)
    throughput = configuration.mini_batch_size / choice.iteration_s
    devices = configuration.width * configuration.depth
    work, bubble = float(times.work_s[i]), float(times.bubble_s[i])
    return Prediction(
        iteration_s=choice.iteration_s,
        throughput_samples_per_s=throughput,
        tokens_per_s=throughput * sequence_length,
        mfu=throughput * sample_flops / (devices * peak_flops),
        bubble_ratio=bubble / (work + bubble),
        breakdown=Breakdown(
            compute_s=work + float(times.update_s[i]),
            bubble_s=bubble,
            p2p_s=float(times.p2p_s[i]),
            all_reduce_s=float(times.all_reduce_s[i]),
        ),
    )


class Narrator:
    """Writes choices as documents for one model on one device."""

    def __init__(
        self, *, sequence_length: int, sample_flops: int, precision: str, accelerator: Accelerator
    ) -> None:
        self._sequence_length = sequence_length
        self._sample_flops = sample_flops
        self._peak_flops = next(flops for name, flops in accelerator.peak_flops.items() if name == precision)

    def candidate(self, choice: Choice) -> Candidate:
        """A choice without the memory of every rank."""
        configuration = choice.evaluated.configuration(choice.index)
        return Candidate(
            **configuration.document(),
            stage_layers=choice.evaluated.stages.counts[choice.index],
            predicted=predict(
                choice,
                sequence_length=self._sequence_length,
                sample_flops=self._sample_flops,
                peak_flops=self._peak_flops,
            ),
            peak_memory_bytes=choice.peak_bytes,
        )

    def chosen(self, choice: Choice) -> Chosen:
        """A choice with the memory of every rank."""
        return Chosen(**self.candidate(choice).model_dump(), memory=memory_of(choice))


def memory_of(choice: Choice) -> tuple[RankMemory, ...]:
    """The memory of every rank of a pipeline group."""
    depth = choice.layout.depth
    return tuple(RankMemory(**choice.evaluated.memory.row(choice.index, rank)) for rank in range(depth))


def fullest_rank(choice: Choice) -> RankMemory:
    """The memory of the rank that needs most."""
    return max(memory_of(choice), key=lambda memory: memory.total_bytes)


def layout_map(shapes: list[Shape], found: Found) -> tuple[Layout, ...]:
    """The best of every (W, D), or why there is none: a cell each of the throughput map."""
    best: dict[Shape, Choice] = {}
    for choice in found.fitting:
        best.setdefault(choice.layout, choice)
    reasons: dict[Shape, Refusal | MemoryRefusal] = {}
    for refusal in found.refused:
        kept = reasons.get(refusal.layout)
        if kept is None or (kept.kind != "memory" and refusal.kind == "memory"):
            reasons[refusal.layout] = refusal
    return tuple(_cell(shape, best.get(shape), reasons.get(shape)) for shape in shapes)


def _cell(shape: Shape, choice: Choice | None, refusal: Refusal | MemoryRefusal | None) -> Layout:
    if choice is None:
        reason = refusal.reason if refusal else "no schedule was tried here"
        return Layout(width=shape.width, depth=shape.depth, reason=reason)
    configuration = choice.evaluated.configuration(choice.index)
    return Layout(
        width=shape.width,
        depth=shape.depth,
        schedule=configuration.schedule,
        micro_batch_size=configuration.micro_batch_size,
        recompute=configuration.recompute,
        throughput_samples_per_s=configuration.mini_batch_size / choice.iteration_s,
        peak_memory_bytes=choice.peak_bytes,
    )
