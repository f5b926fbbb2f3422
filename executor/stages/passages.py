"""What is alive in a stage, and what may happen to it next?"""

from collections.abc import Iterable
from dataclasses import dataclass

from executor.errors import BoundaryError, ExecutorError
from executor.stages.segments import Gradients, SegmentPass
from executor.values import Tensors
from executor.works import Passage


@dataclass
class Part:
    """What is alive of a part of a micro-batch."""

    passes: list[SegmentPass]
    needs: tuple[bool, ...]
    """Which outputs get a gradient."""
    of_loss: Gradients = ()
    """The gradient of the loss, where it took the place of the outputs."""
    split: bool = False
    """The inputs have their gradients, and the parameters have not."""

    def arrived(self, gradients: Tensors) -> Gradients:
        """A gradient or None for every output, from those of the outputs that need one."""
        if self.of_loss:
            return self.of_loss
        wanted = sum(self.needs)
        if len(gradients) != wanted:
            raise BoundaryError(
                f"{len(gradients)} gradients came for the {wanted} of {len(self.needs)} outputs that need one"
            )
        arriving = iter(gradients)
        return [next(arriving) if needed else None for needed in self.needs]


class LivePassages:
    """The parts of micro-batches between their forward and the last of their backward."""

    def __init__(self) -> None:
        self._parts: dict[Passage, dict[int, Part]] = {}

    @property
    def passages(self) -> int:
        """Micro-batches of which something is kept."""
        return len(self._parts)

    @property
    def recomputed(self) -> int:
        """Graphs in memory that were computed a second time."""
        return sum(one.recomputed for part in self._all() for one in part.passes)

    @property
    def pending_weights(self) -> int:
        """Parts whose weight gradients are still to come."""
        return sum(part.split for part in self._all())

    def refuse(self, passage: Passage) -> None:
        """Raise if the passage is here already."""
        if passage in self._parts:
            raise ExecutorError(
                f"{passage} is in this stage already: its backward must come before another forward"
            )

    def add(self, passage: Passage, parts: Iterable[Part]) -> None:
        """After its forward."""
        self._parts[passage] = dict(enumerate(parts))

    def waiting(self, passage: Passage, part: int, *, split: bool) -> Part:
        """A part that waits for its backward; `split`: for the second half of it."""
        found = self._parts.get(passage, {}).get(part)
        if found is None:
            raise ExecutorError(
                f"part {part} of {passage} is not in this stage: its forward has not run, or its backward has"
            )
        if found.split and not split:
            raise ExecutorError(f"part {part} of {passage} has its input gradients: only W is left to do")
        if split and not found.split:
            raise ExecutorError(f"part {part} of {passage} has no input gradients yet: I comes before W")
        return found

    def remove(self, passage: Passage, part: int) -> None:
        """After the last of its backward."""
        parts = self._parts[passage]
        del parts[part]
        if not parts:
            del self._parts[passage]

    def clear(self) -> None:
        """Let go of everything."""
        self._parts.clear()

    def _all(self) -> list[Part]:
        return [part for parts in self._parts.values() for part in parts.values()]
