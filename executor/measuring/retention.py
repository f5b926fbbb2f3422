"""Which bytes does a layer keep for its backward, and what does it need besides while it runs?

Kept: what autograd saves, each storage once, without parameters and buffers. The peak is the allocator's on
CUDA; on a CPU it is counted over the storages that operations give and that are still alive.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, UntypedStorage
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


@dataclass(frozen=True)
class Retained:
    """Bytes of one forward and backward."""

    kept_bytes: int
    """Saved by the forward."""
    transient_bytes: int
    """Most that is alive beyond what is kept: the peak less the new storages that are kept."""


def retained(
    forward: Callable[[], Any],
    backward: Callable[[Any], None],
    *,
    own: Iterable[Tensor],
    device: torch.device,
) -> Retained:
    """Run a forward and its backward once; `own` (parameters, buffers, gradients) counts as neither."""
    owned = list(own)
    kept = _Kept({_address(tensor.untyped_storage()) for tensor in owned})
    with _peak_meter(owned, device) as peak:
        before = peak.bytes()
        with saved_tensors_hooks(kept.save, lambda tensor: tensor):
            output = forward()
        new_bytes = peak.new_bytes(kept)
        backward(output)
        del output
        most = peak.most() - before
    return Retained(kept.bytes, max(0, most - new_bytes))


class _Kept:
    """What autograd saves."""

    def __init__(self, own: set[int]) -> None:
        self._own = own
        self.sizes: dict[int, int] = {}
        self._references: list[Any] = []

    @property
    def bytes(self) -> int:
        return sum(self.sizes.values())

    def save(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        address = _address(storage)
        if address not in self._own and address not in self.sizes:
            self.sizes[address] = storage.nbytes()
            self._references.append(StorageWeakRef(storage))  # type: ignore[no-untyped-call]
        return tensor


class _Living(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the storages that operations have given and that are alive."""

    def __init__(self, own: list[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._known = {_address(tensor.untyped_storage()) for tensor in own}
        self._alive: dict[int, tuple[Any, int]] = {}
        self._most = 0

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._known |= {
            address
            for tensor in tree_leaves((args, kwargs))
            if isinstance(tensor, Tensor)
            and (address := _address(tensor.untyped_storage())) not in self._alive
        }
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._note(tensor.untyped_storage())
        self._most = max(self._most, self.bytes())
        return result

    def bytes(self) -> int:
        """Bytes alive now."""
        self._alive = {address: entry for address, entry in self._alive.items() if not entry[0].expired()}
        return sum(size for _, size in self._alive.values())

    def most(self) -> int:
        """Most bytes that were alive at once."""
        return self._most

    def new_bytes(self, kept: _Kept) -> int:
        """Bytes of what is kept that operations gave since the beginning."""
        return sum(size for address, size in kept.sizes.items() if address in self._alive)

    def _note(self, storage: UntypedStorage) -> None:
        address = _address(storage)
        if address not in self._known and address not in self._alive:
            reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
            self._alive[address] = (reference, storage.nbytes())


class _Allocated:
    """The same from the allocator of a CUDA device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        self._before = self.bytes()

    def bytes(self) -> int:
        return torch.cuda.memory_allocated(self._device)

    def most(self) -> int:
        torch.cuda.synchronize(self._device)
        return torch.cuda.max_memory_allocated(self._device)

    def new_bytes(self, kept: _Kept) -> int:
        """What is kept, less what was there before: no more than was allocated."""
        return min(kept.bytes, self.bytes() - self._before)


@contextmanager
def _peak_meter(own: list[Tensor], device: torch.device) -> Iterator[_Living | _Allocated]:
    if device.type == "cuda":
        yield _Allocated(device)
    else:
        with _Living(own) as living:
            yield living


def _address(storage: UntypedStorage) -> int:
    return int(storage._cdata)
