"""What does a rank hold while a program runs? Its parameters, and a share for each live micro-batch."""

from dataclasses import dataclass

import numpy as np

from tuner.evaluated import Evaluated
from tuner.recomputed import kept_bytes
from tuner.schedules.scheme import Floats


@dataclass(frozen=True)
class HeldMemory:
    """The memory along a timeline, without the working set of the operation that runs at the moment."""

    capacity_bytes: int
    """Of the device."""
    always_bytes: Floats
    """Weights, gradients, optimizer state, buffers and framework of each rank [w]."""
    kept_bytes: Floats
    """Activations that a micro-batch keeps of each stage, from its forward to its backward [s]."""
    peak_bytes: Floats
    """At the fullest moment of each rank, working sets included, what is kept free not [w]."""

    def document(self) -> dict[str, int | list[int]]:
        """As JSON values, in whole bytes."""
        columns = {name: getattr(self, name) for name in ("always_bytes", "kept_bytes", "peak_bytes")}
        return {"capacity_bytes": self.capacity_bytes} | {
            name: np.ceil(values).astype(np.int64).tolist() for name, values in columns.items()
        }


def held_memory(evaluated: Evaluated, index: int = 0) -> HeldMemory:
    """Of the configuration at one of its micro-batch sizes."""
    memory = evaluated.memory
    always = (
        memory.weights_bytes
        + memory.gradients_bytes
        + memory.optimizer_bytes
        + memory.communication_bytes
        + memory.framework_bytes
    )
    return HeldMemory(
        evaluated.capacity_bytes,
        always[index],
        kept_bytes(evaluated.stages, evaluated.variant.recompute)[index],
        (memory.total() - memory.reserve_bytes)[index],
    )
