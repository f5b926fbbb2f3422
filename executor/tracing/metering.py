"""What does a piece of a forward compute and keep, and what does it need while it runs?"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, UntypedStorage
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from executor.models.flash import FLOP_FORMULAS


@dataclass(frozen=True)
class Cost:
    """What one piece costs at one micro-batch size."""

    forward_flops: int
    backward_flops: int
    kept_bytes: int
    """Unique storages that autograd saved, without parameters and buffers."""
    worst_bytes: int
    """Over the tensors made, three times the tensor less what was kept after it, as `tuner.families.tape`
    has it.
    """
    parameters: Mapping[str, int]
    """Elements of each parameter that got a gradient."""


class Meter:
    """Measures pieces of a model's forward one after the other: `begin`, run the piece, `end` with its
    outputs.

    `end` runs the backward of the piece, so what the piece starts from must be a leaf.
    """

    def __init__(self, model: Any) -> None:
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._own = {_address(tensor) for tensor in (*model.parameters(), *model.buffers())}
        self._flops = FlopCounterMode(display=False, custom_mapping=FLOP_FORMULAS)
        self._stack = ExitStack()
        self._parameters = list(model.parameters())
        self.begin()

    def __enter__(self) -> Self:
        for parameter in self._parameters:
            self._stack.callback(parameter.register_post_accumulate_grad_hook(self._accumulated).remove)
        self._stack.enter_context(_Outputs(self._made))
        self._stack.enter_context(self._flops)
        self._stack.enter_context(saved_tensors_hooks(self._save, lambda tensor: tensor))
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    @property
    def saw_fused_attention(self) -> bool:
        """Whether the fused attention of `executor.models.flash` ran."""
        return any(operator in FLOP_FORMULAS for operator in self._flops.get_flop_counts()["Global"])

    def begin(self) -> None:
        """Start a piece."""
        self._kept: set[int] = set()
        self._kept_bytes = 0
        self._sizes: dict[int, tuple[int, int]] = {}
        self._references: list[Any] = []
        self._touched: dict[str, int] = {}
        self._flops_before = self._flops.get_total_flops()

    def end(self, *outputs: Tensor, without: int = 0) -> Cost:
        """End the piece and run its backward, from those `outputs` that have one.

        Tensors of `without` bytes (logits, which the loss counts) do not count as made.
        """
        forward_flops = self._flops.get_total_flops() - self._flops_before
        made = [(size, kept) for size, kept in self._sizes.values() if size != without]
        worst = max((3 * size - (self._kept_bytes - kept) for size, kept in made), default=0)
        kept_bytes = self._kept_bytes
        roots = [output for output in outputs if output.requires_grad]
        torch.autograd.backward(roots, [torch.ones_like(output) for output in roots])
        return Cost(
            forward_flops=forward_flops,
            backward_flops=self._flops.get_total_flops() - self._flops_before - forward_flops,
            kept_bytes=kept_bytes,
            worst_bytes=max(0, worst),
            parameters=dict(self._touched),
        )

    def _save(self, tensor: Tensor) -> Tensor:
        address = _address(tensor)
        if address not in self._own and address not in self._kept:
            # Statistics of a row (mean, deviation) are float32 on GPUs, whatever the CPU says.
            upcast = 2 if tensor.shape[-1:] == (1,) and tensor.itemsize == 2 else 1
            self._kept.add(address)
            self._kept_bytes += upcast * tensor.untyped_storage().nbytes()
            self._hold(tensor.untyped_storage())
        return tensor

    def _made(self, storage: UntypedStorage) -> None:
        address = int(storage._cdata)
        if address not in self._own and address not in self._sizes:
            self._sizes[address] = (storage.nbytes(), self._kept_bytes)
            self._hold(storage)

    def _hold(self, storage: UntypedStorage) -> None:
        """Keep the address, not the bytes, from being given away: it tells storages apart."""
        self._references.append(StorageWeakRef(storage))  # type: ignore[no-untyped-call]

    def _accumulated(self, parameter: Tensor) -> None:
        self._touched[self._names[id(parameter)]] = parameter.numel()
        parameter.grad = None


class _Outputs(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands every storage that an operation gives to `note`."""

    def __init__(self, note: Callable[[UntypedStorage], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._note = note

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._note(tensor.untyped_storage())
        return result


def _address(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
