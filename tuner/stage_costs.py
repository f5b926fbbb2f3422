"""What does each stage cost, at every micro-batch size? Axes are b (row) and s (stage)."""

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from tuner.configuration import Recompute
from tuner.schedules.scheme import Floats, Integers


@dataclass(frozen=True)
class UpdateTimes:
    """Measured seconds of an optimizer step that is not sharded."""

    untied_s: Floats
    """Of the parameters of each stage that are not tied to others [b, s]."""
    tied_s: tuple[float, ...]
    """Of each tied group, in the order of `StageCosts.tied`."""


@dataclass(frozen=True)
class StageCosts:
    """Costs of every stage [b, s], parameters included: the cuts may move with the micro-batch size."""

    counts: tuple[tuple[int, ...], ...]
    """Blocks per stage, for each micro-batch size."""
    forward_s: Floats
    backward_s: Floats
    weight_backward_s: Floats
    """The part of the backward that a split one may defer."""
    split_s: Floats
    """What both parts of a split backward take beyond the whole one."""
    recomputed_forward_s: dict[Recompute, Floats]
    """What each recomputation adds to the backward."""
    activation_bytes: Floats
    block_activation_bytes: Floats
    largest_block_bytes: Floats
    """Activations of the largest block of the stage: the working set of recomputing one layer."""
    block_input_bytes: Floats
    """Inputs of the blocks, kept under recompute=layer."""
    stage_input_bytes: Floats
    cut_bytes: Floats
    """What leaves each stage forwards; 0 after the last."""
    loss_bytes: Floats
    loss_work_bytes: Floats
    transient_bytes: Floats
    """Most that a backward adds to what its stage keeps: it runs from the last layer to the first, and what
    the layers behind have kept is free by then."""
    largest_transient_bytes: Floats
    """Most that a layer adds while it runs, where nothing is freed before."""
    arriving_bytes: Floats
    """Gradients that wait for the weight gradient, where the backward is split."""
    layer_backward_bytes: Floats
    """As `transient_bytes` under recompute=layer, with the activations of the layer that is recomputed."""
    parameters: Floats
    """Parameters that are not tied to others."""
    tied: tuple[tuple[int, Floats], ...]
    """For each tied group its parameters, and 1 where a stage has a member [b, s]."""
    update: UpdateTimes | None = None
    """None where the optimizer step of some layer was not measured."""

    def rows(self, index: Integers) -> "StageCosts":
        """Rows of these, in the order of `index` and as often as they stand there [b]."""
        if len(index) == len(self.counts) and (np.diff(index) == 1).all():
            return self
        taken = {
            field.name: value[index]
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), np.ndarray)
        }
        return replace(
            self,
            **taken,
            counts=tuple(self.counts[row] for row in index.tolist()),
            recomputed_forward_s={mode: values[index] for mode, values in self.recomputed_forward_s.items()},
            tied=tuple((size, member[index]) for size, member in self.tied),
            update=self.update and UpdateTimes(self.update.untied_s[index], self.update.tied_s),
        )

    @cached_property
    def all_parameters(self) -> Floats:
        """Parameters of each stage, a tied group counted once within it [b, s]."""
        return self.parameters + sum(size * member for size, member in self.tied)

    @cached_property
    def all_update_s(self) -> Floats | None:
        """Measured optimizer step of each stage, a tied group counted once within it [b, s]."""
        if self.update is None:
            return None
        tied = zip(self.update.tied_s, self.tied, strict=True)
        return self.update.untied_s + sum(seconds * member for seconds, (_, member) in tied)
