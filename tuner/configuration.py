"""How is a model laid out on the devices?"""

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

Recompute = Literal["none", "stage", "layer"]
Scaling = Literal["direct", "doubling", "halving"]


@dataclass(frozen=True, order=True)
class Configuration:
    """One layout: the paper's W, D, B, N and f are width, depth, micro_batch_size, micro_batches, pipe_pairs.

    width * depth devices are used, and width * micro_batch_size * micro_batches samples make a mini-batch.
    """

    schedule: str
    width: int
    depth: int
    micro_batch_size: int
    micro_batches: int
    recompute: Recompute = "none"
    scaling: Scaling = "direct"
    pipe_pairs: int = 1
    chunks: int = 1

    @property
    def mini_batch_size(self) -> int:
        """Samples of one optimizer step, B̂ = B·N·W."""
        return self.micro_batch_size * self.micro_batches * self.width

    @property
    def stages(self) -> int:
        """Stages that the model is cut into, D·v."""
        return self.depth * self.chunks

    def document(self) -> dict[str, Any]:
        """The configuration as JSON keys."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def with_(self, **changes: Any) -> "Configuration":
        """A copy with some fields changed."""
        return replace(self, **changes)

    def __str__(self) -> str:
        text = (
            f"{self.schedule} W={self.width} data-parallel x D={self.depth} pipeline, "
            f"B={self.micro_batch_size}, N={self.micro_batches}"
        )
        extras = [
            f"recompute={self.recompute}" if self.recompute != "none" else "",
            self.scaling if self.scaling != "direct" else "",
            f"{2 * self.pipe_pairs} pipes" if self.pipe_pairs > 1 else "",
        ]
        return ", ".join([text, *filter(None, extras)])
