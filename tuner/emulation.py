"""What does a trial take whose stages only sleep? For schedules and machines, without a model."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from profiles.document import Part

MAX_SLEPT_S = 3600.0

Slept = Annotated[float, Field(ge=0, le=MAX_SLEPT_S)]


class Emulation(Part):
    """What stages take that only sleep: seconds of a rank's whole share, which its chunks divide."""

    forward_s: Annotated[float, Field(gt=0, le=MAX_SLEPT_S)]
    backward_s: Annotated[float, Field(gt=0, le=MAX_SLEPT_S)]
    """The whole backward."""
    weight_gradient_s: Slept | None = None
    """The part of it that split schedules may defer; half unless given."""
    recompute_s: Slept = 0.0
    """Added to every backward."""
    message_bytes: Annotated[int, Field(ge=4, le=2**31)] = 4096
    """Of an activation, and of its gradient."""
    all_reduce_s: Slept = 0.0
    """Of the gradients of one stage."""
    lanes: Annotated[int, Field(ge=1, le=1000)] | None = None
    """All-reduces of a rank that run at once, as on one link; any number unless given."""
    update_s: Slept = 0.0
    hop_s: Slept = 0.0
    """Expected from the end of a stage to its neighbour's start: part of the prediction alone."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.weight_gradient_s or 0.0) > self.backward_s:
            raise ValueError(
                f"weight_gradient_s {self.weight_gradient_s:g} is a part of backward_s, which is "
                f"{self.backward_s:g}"
            )
        return self
