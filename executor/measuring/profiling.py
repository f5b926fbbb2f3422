"""How is the profile of a model taken? Layer by layer, at each micro-batch size, until memory ends."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import nn

from executor.errors import ConfigurationError
from executor.heap import keep_freed_memory
from executor.measuring.environment import accelerator_of, describe_environment, free_bytes
from executor.measuring.factory_description import describe_layers
from executor.measuring.measure import LossLayer, MeasuredPoint, measure_layer, measure_update
from executor.measuring.stopwatch import Stopwatch
from executor.measuring.subjects import Subject, first_of_each, samples, types_of
from executor.models.sources import Model
from executor.values import Tensors
from profiles.model import ModelDescription
from profiles.timings import LayerTimings, Profile, TimingPoint, TypeTimings

Optimizer = Literal["sgd", "momentum", "adam", "adamw"]
OPTIMIZERS: dict[Optimizer, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=1e-3),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-3),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
}
FREE_SHARE = 0.9
"""Share of the free memory that a size may be expected to take."""
LOADED_SHARE = 0.75
"""Fewer undisturbed repeats than this, and the machine is called loaded."""
WIDE_SPREAD = 0.05

Progress = Callable[[int, int, str], None]
"""(done, of, what comes next)"""


@dataclass(frozen=True)
class Plan:
    """How to measure."""

    micro_batch_sizes: tuple[int, ...]
    device: str = "cpu"
    threads: int = 1
    """Threads that compute on a CPU; ranks run one each."""
    budget_s: float = 2.0
    """Longest time to repeat one layer at one size, beyond the least number of repeats."""
    optimizer: Optimizer = "adam"
    accelerator: str | None = None
    """Name of the data sheet, where the device does not tell it."""
    seed: int = 0


def take_profile(
    model: Model,
    plan: Plan,
    *,
    name: str,
    description: ModelDescription | None = None,
    progress: Progress = lambda *_: None,
) -> Profile:
    """Measure a model that has a description, or else make one from what is measured.

    Sizes are tried in rising order; the first that does not fit, and all after it, are left out. Raises
    ConfigurationError if not even the smallest fits.
    """
    device = torch.device(plan.device)
    if device.type == "cpu":
        keep_freed_memory()  # as ranks do
    with computing_threads(plan.threads):
        types = (
            [layer.type for layer in description.layers]
            if description
            else types_of(model, device=device, seed=plan.seed)
        )
        run = _Run(model, plan, first_of_each(types), progress)
        run.measure()
        if description is None:
            description = describe_layers(model, types, run.points, name=name, device=device)
    return Profile(description=description, timings=run.timings(description, name))


@contextmanager
def computing_threads(threads: int) -> Iterator[None]:
    """Let torch compute with so many threads on the CPU."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass
class _Run:
    model: Model
    plan: Plan
    subjects: Sequence[Subject]
    progress: Progress
    points: dict[str, list[MeasuredPoint]] = field(default_factory=dict)
    updates: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    largest: int | None = None
    before: dict[str, TimingPoint] = field(default_factory=dict)
    """What each subject took at the size before, or with one sample, from which the next is judged."""

    def measure(self) -> None:
        """Measure every size, then the optimizer steps."""
        device = torch.device(self.plan.device)
        watch = Stopwatch(on_cuda=device.type == "cuda", single_thread=self.plan.threads == 1)
        layers = self._build(device)
        sizes = self.plan.micro_batch_sizes
        if sizes[0] > 1:
            self._probe(layers, watch=watch)
        done, total = 0, (len(sizes) + 1) * len(self.subjects)
        for size in sizes:
            if reason := self._measure_size(size, layers, watch=watch, done=done, total=total):
                self._stop(size, reason)
                break
            done += len(self.subjects)
        factory = OPTIMIZERS[self.plan.optimizer]
        for number, (kind, layer) in enumerate(layers.items()):
            self.progress(total - len(self.subjects) + number, total, f"{kind}, update")
            timed = measure_update(layer, factory, watch=watch, budget_s=self.plan.budget_s)
            self.updates[kind] = timed.median_s if timed else 0.0
        self.progress(total, total, "done")

    def timings(self, description: ModelDescription, name: str) -> LayerTimings:
        """What was measured, as a document."""
        device = torch.device(self.plan.device)
        environment = describe_environment(device, threads=self.plan.threads)
        shapes = {layer.type: layer.shape for layer in description.layers}
        self._judge()
        return LayerTimings(
            name=name,
            accelerator=self.plan.accelerator or accelerator_of(device),
            software=f"torch {torch.__version__}",
            precision=description.precision,
            attention=description.attention,
            sequence_length=description.sequence_length,
            source=f"Measured on {environment.device} with {self.plan.threads} thread(s) of torch "
            f"{torch.__version__}: medians of at least 5 repeats"[:2_000],
            environment=environment,
            notes=tuple(self.notes),
            optimizer=self.plan.optimizer,
            largest_micro_batch_size=self.largest,
            types=tuple(
                TypeTimings(
                    type=subject.type,
                    shape=shapes[subject.type],
                    provenance="measured",
                    points=tuple(measured.point for measured in self.points[subject.type]),
                    update_s=self.updates.get(subject.type, 0.0),
                )
                for subject in self.subjects
            ),
        )

    def _build(self, device: torch.device) -> dict[str, nn.Module]:
        wanted = [subject for subject in self.subjects if subject.layer < len(self.model)]
        built = self.model.build([subject.layer for subject in wanted], device=device)
        return {subject.type: layer for subject, layer in zip(wanted, built, strict=True)}

    def _measure_size(
        self, size: int, layers: dict[str, nn.Module], *, watch: Stopwatch, done: int, total: int
    ) -> str | None:
        """Measure all subjects at one size; says why it cannot be done, and then nothing of it is kept."""
        found: dict[str, MeasuredPoint] = {}
        device = torch.device(self.plan.device)
        try:
            # Before the samples are made: many short ones are cheap to keep and long to make.
            if reason := next(filter(None, (self._too_much(one, size) for one in self.subjects)), None):
                return reason
            inputs, target = samples(self.model, size, device=device, seed=self.plan.seed)
            for number, subject in enumerate(self.subjects):
                self.progress(done + number, total, f"{subject.type}, B={size}")
                if reason := self._too_much(subject, size):
                    return reason
                values: Tensors = inputs if subject.follows is None else found[subject.follows].outputs
                layer = layers.get(subject.type) or LossLayer(self.model.loss, target)
                found[subject.type] = measure_layer(
                    layer, values, micro_batch_size=size, watch=watch, budget_s=self.plan.budget_s
                )
        except (torch.OutOfMemoryError, MemoryError) as error:
            return _first_line(error)
        except RuntimeError as error:
            if "allocate memory" not in str(error):
                raise
            return _first_line(error)
        for kind, measured in found.items():
            self.points.setdefault(kind, []).append(measured)
            self.before[kind] = measured.point
        return None

    def _probe(self, layers: dict[str, nn.Module], *, watch: Stopwatch) -> None:
        """See what one sample takes: nothing else bounds the first size. The times are dropped."""
        total = (len(self.plan.micro_batch_sizes) + 1) * len(self.subjects)
        if reason := self._measure_size(1, layers, watch=watch, done=0, total=total):
            self._stop(1, reason)
        self.points.clear()

    def _too_much(self, subject: Subject, size: int) -> str | None:
        needed, free = self._expected_bytes(subject, size), free_bytes(torch.device(self.plan.device))
        if needed <= FREE_SHARE * free:
            return None
        return f"{subject.type} is expected to take {needed:,} bytes of {free:,} that are free"

    def _expected_bytes(self, subject: Subject, size: int) -> int:
        """What a layer would take at `size`, in proportion to the size before; twice kept in split passes."""
        point = self.before.get(subject.type)
        if point is None:
            return 0
        bytes_ = (
            (point.activation_bytes or 0) + (point.transient_bytes or 0) + 2 * (point.boundary_bytes or 0)
        )
        return 2 * bytes_ * size // point.micro_batch_size

    def _stop(self, size: int, reason: str) -> None:
        if not self.points:
            raise ConfigurationError(
                f"micro-batch size {size:,} does not fit on {self.plan.device}: {reason}. Ask for "
                "smaller sizes."
            )
        first = next(iter(self.points.values()))
        self.largest = first[-1].point.micro_batch_size
        self.notes.append(f"sizes from {size:,} on do not fit: {reason}")

    def _judge(self) -> None:
        """Say what spread and what was disturbed."""
        measured = [(kind, one) for kind, found in self.points.items() for one in found]
        share = min(one.quiet_share for _, one in measured)
        if share < LOADED_SHARE:
            self.notes.append(
                f"the machine is loaded: in the worst case only {share:.0%} of the repeats ran undisturbed; "
                "measure again on a quiet machine"
            )
        wide = [(kind, one.point) for kind, one in measured if (one.point.spread or 0) > WIDE_SPREAD]
        if wide:
            kind, point = max(wide, key=lambda entry: entry[1].spread or 0)
            self.notes.append(
                f"{len(wide)} of {len(measured)} points spread by more than {WIDE_SPREAD:.0%}; the widest is "
                f"{kind} at B={point.micro_batch_size}, {point.spread:.0%}"
            )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
