"""Which configurations fit, which is best, and why was each other one rejected?"""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import numpy as np

from tuner.choice import Choice, Found
from tuner.configuration import Recompute
from tuner.evaluated import Evaluated, Variant
from tuner.evaluation import Evaluator
from tuner.rejection import MemoryRefusal, Refusal
from tuner.request import PlanRequest
from tuner.schedules import SYNCHRONOUS, Scheme, find_scheme
from tuner.schedules.scheme import Integers
from tuner.space import (
    TARGET_FILLED,
    TARGET_RECOMPUTE,
    TARGET_SCHEDULES,
    Layout,
    all_sizes,
    batch_fault,
    greedy_sizes,
    layouts,
    refuse_batch,
)

_MANY_SIZES = 64
_RECOMPUTES: tuple[Recompute, ...] = ("none", "stage", "layer")


SearchOne = Callable[[Scheme, Layout, list[Evaluated]], Found]
"""A search over one schedule on one layout, given the variants that may be used."""


class Search:
    """All legal configurations of one request, evaluated once."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.request: PlanRequest = evaluator.inputs.request
        self.layouts = layouts(self.request, len(evaluator.inputs.description.blocks))
        self.schemes = [find_scheme(name) for name in self.request.schedules or SYNCHRONOUS]
        self._pool: dict[tuple[str, Layout], list[Evaluated]] = {}
        self._faults = {layout: batch_fault(self.request, layout) for layout in self.layouts}
        if all(self._faults.values()):
            raise refuse_batch(self.request, self.layouts)

    def greedy(self, *, any_target: bool = False) -> Found:
        """For each (W, D) and schedule the largest power-of-two B that fits (paper, section 3.4)."""
        return self._collect(self._greedy_of, any_target)

    def exhaustive(self, *, any_target: bool = False) -> Found:
        """Every dividing B, every recomputation, every number of pipes."""
        return self._collect(self._exhaustive_of, any_target)

    def within(self, limit_s: float) -> Found:
        """What of `exhaustive` fits and takes at most `limit_s` by equation 1; nothing of what is refused."""
        target = self.request.runs_on
        fitting = [
            Choice(group, int(index))
            for scheme, layout in self.legal
            for group in self.allowed(scheme, layout, target)
            if group.fits.any()
            for index in np.flatnonzero(group.fits & (group.iteration_s <= limit_s))
        ]
        return Found(tuple(sorted(fitting, key=Choice.rank)), ())

    def pool(self, scheme: Scheme, layout: Layout) -> list[Evaluated]:
        """Every variant of a schedule on a layout, at every micro-batch size."""
        key = (scheme.name, layout)
        if key not in self._pool:
            self._pool[key] = list(self._evaluate(scheme, layout))
        return self._pool[key]

    def allowed(self, scheme: Scheme, layout: Layout, target: str) -> list[Evaluated]:
        """The variants of a schedule on a layout that a target runs."""
        if scheme.name not in TARGET_SCHEDULES.get(target, (scheme.name,)):
            return []
        recomputes = TARGET_RECOMPUTE.get(target, _RECOMPUTES)
        groups = [group for group in self.pool(scheme, layout) if group.variant.recompute in recomputes]
        if layout.depth == 1 or scheme.name not in TARGET_FILLED.get(target, ()):
            return groups
        # Sizes rise, so that the first ones leave the most micro-batches.
        filled = [group.first(int((group.micro_batches >= layout.depth).sum())) for group in groups]
        return [group for group in filled if len(group.micro_batches)]

    @cached_property
    def legal(self) -> list[tuple[Scheme, Layout]]:
        """Every schedule on every layout that allows it."""
        return [
            (scheme, layout)
            for layout in self.layouts
            if not self._faults[layout]
            for scheme in self.schemes
            if self._illegal(scheme, layout) is None
        ]

    def _illegal(self, scheme: Scheme, layout: Layout) -> str | None:
        """Why a schedule cannot run on a layout at all."""
        blocks = len(self.evaluator.inputs.description.blocks)
        if scheme.chunks * layout.depth > blocks:
            return (
                f"{scheme.name} cuts {scheme.chunks} stages a rank, {scheme.chunks * layout.depth} at "
                f"D = {layout.depth}, and the model has {blocks} blocks"
            )
        return scheme.illegal_depth(layout.depth)

    def _evaluate(self, scheme: Scheme, layout: Layout) -> Iterator[Evaluated]:
        sizes = self._sizes(layout)
        asked = self.request.recompute
        recomputes = _RECOMPUTES if asked == "auto" else (asked,)
        each = [
            self.evaluator.evaluate_each(
                Variant(scheme, layout, scaling, pairs, recomputes[0]), recomputes, sizes
            )
            for scaling, pairs in scheme.variants(layout.depth, exhaustive=True)
        ]
        for together in zip(*filter(None, each), strict=True):
            yield from together

    def _sizes(self, layout: Layout) -> Integers:
        """All sizes; of very many, those up to the first of which not even one micro-batch fits."""
        sizes = np.array(all_sizes(self.request, layout), dtype=np.int64)
        if len(sizes) <= _MANY_SIZES:
            return sizes
        stages = self.evaluator.stages(layout.depth, sizes)
        least = (stages.largest_block_bytes + stages.loss_work_bytes).max(axis=1)
        possible = int((least <= self.evaluator.inputs.accelerator.memory_bytes).sum())
        return sizes[: possible + 1]

    def _collect(self, search: SearchOne, any_target: bool) -> Found:
        fitting: list[Choice] = []
        refused: list[Refusal | MemoryRefusal] = list(self._refuse_layouts())
        target = "any" if any_target else self.request.runs_on
        for scheme, layout in self.legal:
            if scheme.name not in TARGET_SCHEDULES.get(target, (scheme.name,)):
                refused.append(
                    Refusal("target", f"{target} cannot run the schedule {scheme.name}", layout, scheme.name)
                )
                continue
            found = search(scheme, layout, self.allowed(scheme, layout, target))
            fitting.extend(found.fitting)
            refused.extend(found.refused)
            if not found.fitting and not found.refused:
                refused.append(self._refuse_untried(scheme, layout, target))
        return Found(tuple(sorted(fitting, key=Choice.rank)), tuple(refused))

    def _refuse_layouts(self) -> Iterator[Refusal]:
        for layout in self.layouts:
            fault = self._faults[layout]
            if fault:
                yield Refusal("batch", fault, layout)
                continue
            for scheme in self.schemes:
                illegal = self._illegal(scheme, layout)
                if illegal:
                    yield Refusal("layout", illegal, layout, scheme.name)

    @staticmethod
    def _exhaustive_of(_scheme: Scheme, _layout: Layout, groups: list[Evaluated]) -> Found:
        fitting = [Choice(group, int(i)) for group in groups for i in np.flatnonzero(group.fits)]
        refused = [MemoryRefusal(group, int(i)) for group in groups for i in np.flatnonzero(~group.fits)]
        return Found(tuple(fitting), tuple(refused))

    def _greedy_of(self, scheme: Scheme, layout: Layout, groups: list[Evaluated]) -> Found:
        single = [group for group in groups if group.variant.pipe_pairs == 1]
        modes = {mode: [g for g in single if g.variant.recompute == mode] for mode in _RECOMPUTES}
        refused: list[Refusal | MemoryRefusal] = []
        sizes = greedy_sizes(self.request, layout, scheme)
        for attempt in (modes["none"],), (modes["stage"], modes["layer"]):
            for size in sizes:
                at_size = [_at(mode, size) for mode in attempt if mode]
                choices = min(filter(None, at_size), key=_lowest_peak, default=[])
                fitting = [choice for choice in choices if choice.evaluated.fits[choice.index]]
                if fitting:
                    return Found((min(fitting, key=Choice.rank),), tuple(refused))
                if choices:
                    least = min(choices, key=lambda choice: choice.peak_bytes)
                    refused.append(MemoryRefusal(least.evaluated, least.index))
        return Found((), tuple(refused))

    def _refuse_untried(self, scheme: Scheme, layout: Layout, target: str) -> Refusal:
        """Why there is no variant to try: the target lacks the recomputation, or N is out of the domain."""
        recomputes = TARGET_RECOMPUTE.get(target, _RECOMPUTES)
        share = self.request.mini_batch_size // layout.width
        sizes = greedy_sizes(self.request, layout, scheme)
        most = share // min(sizes)
        if scheme.name in TARGET_FILLED.get(target, ()) and most < layout.depth:
            reason = f"{target} runs {scheme.name} with N >= D alone, and N = {most}, D = {layout.depth}"
            return Refusal("target", reason, layout, scheme.name)
        if self.pool(scheme, layout) and self.request.recompute not in recomputes:
            reason = f"{target} has no recompute={self.request.recompute}, only {' and '.join(recomputes)}"
            return Refusal("target", reason, layout, scheme.name)
        reasons = [
            scheme.illegal(layout.depth, share // size, scaling="direct", pipe_pairs=1) for size in sizes
        ]
        reason = next(filter(None, reasons), f"{scheme.name} has no variant at the sizes {sizes}")
        return Refusal("domain", reason, layout, scheme.name)


def _at(groups: Iterable[Evaluated], size: int) -> list[Choice]:
    """The choices of all variants at one micro-batch size."""
    found = []
    for group in groups:
        index = int(np.searchsorted(group.micro_batch_sizes, size))
        if index < len(group.micro_batch_sizes) and group.micro_batch_sizes[index] == size:
            found.append(Choice(group, index))
    return found


def _lowest_peak(choices: list[Choice]) -> int:
    return min(choice.peak_bytes for choice in choices)
