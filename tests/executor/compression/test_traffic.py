"""Do compressors move as many bytes through memory as the model counts?"""

from typing import Any, cast

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from executor.compression.compressor import Compressor
from executor.compression.feedback import Unit
from executor.compression.wire import Wire
from tuner.compression import NAMES, read_compression

ELEMENTS, REPLICAS = 300_000, 4


class Group:
    """As much of a process group as a silent wire asks for."""

    def size(self) -> int:
        """Its members."""
        return REPLICAS


class Carried:
    """A collective that has ended."""

    def wait(self) -> None:
        """At once."""


class Silent(Wire):
    """Carries nothing, as if everyone had sent the same."""

    def all_reduce(self, tensor: Tensor, process_group: dist.ProcessGroup) -> Any:
        """The tensor stays as it is."""
        return Carried()

    def all_gather(self, whole: Tensor, own: Tensor, process_group: dist.ProcessGroup) -> Any:
        """The same from everyone."""
        whole.view(process_group.size(), -1).copy_(own)
        return Carried()


class Traffic(TorchDispatchMode):
    """Adds up what operations read and write; views move nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.moved_bytes = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run it and count."""
        made = func(*args, **(kwargs or {}))
        if not func.is_view and not any(word in str(func) for word in ("empty", "lift_fresh", "unbind")):
            # What is overwritten or only gives its shape is not read.
            skipped = any(word in str(func) for word in ("copy_.", "zeros_like", "index"))
            read = tree_leaves((args[1:] if skipped else args, kwargs))
            written = [] if "index_" in str(func) else tree_leaves(made)
            self.moved_bytes += sum(each.nbytes for each in (*read, *written) if isinstance(each, Tensor))
        return made


def moved(text: str) -> list[float]:
    """Bytes a gradient before, between and after its collectives, in the second step."""
    compressor, found = Compressor(read_compression(text), wire=Silent()), []
    group = cast(dist.ProcessGroup, Group())
    for _ in range(2):
        unit = Unit((0, 0), 0, torch.randn(ELEMENTS), 0, REPLICAS)
        found = []
        with Traffic() as traffic:
            pending = compressor.start(unit, group, length=ELEMENTS, scale=1.0)
            found.append(traffic.moved_bytes / ELEMENTS)
            compressor.proceed()
            found.append(traffic.moved_bytes / ELEMENTS)
            pending.wait()
            compressor.settle(stepped=True)
            found.append(traffic.moved_bytes / ELEMENTS)
    return [found[0], found[1] - found[0], found[2] - found[1]]


@pytest.mark.parametrize("text", NAMES[1:])
def test_the_model_counts_the_bytes_that_are_moved(text: str) -> None:
    """Within a fifth where torch does it; what a CPU selects, packs and unpacks by numpy comes on top."""
    how, elements = read_compression(text), torch.tensor([float(ELEMENTS)]).numpy()
    counted = [
        float(part[0]) / ELEMENTS
        for part in (
            how.before_s(elements, 1.0),
            how.between_s(elements, 1.0),
            how.after_s(elements, 1.0, replicas=REPLICAS),
        )
    ]
    by_numpy = {"topk": (20, 0, 0), "gaussiank": (9, 0, 0), "qsgd": (0, 0, 100)}.get(how.name, (0, 0, 0))
    for torchs, numpys, models in zip(moved(text), by_numpy, counted, strict=True):
        assert torchs + numpys == pytest.approx(models, rel=0.2, abs=0.2)
