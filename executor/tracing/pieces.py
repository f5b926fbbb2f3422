"""Where does one layer end and the next begin while a whole model runs?"""

from typing import Any

import torch
from torch import Tensor, nn

from executor.tracing.metering import Cost, Meter
from tuner.errors import UnsupportedModelError


def find_blocks(model: Any) -> list[nn.Module]:
    """The repeated layers of a model: the largest of its lists of `num_hidden_layers` modules."""
    wanted = model.config.num_hidden_layers
    lists = [list(m) for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) == wanted]
    if not lists:
        raise UnsupportedModelError(
            f"the {model.config.model_type!r} model has no list of {wanted} layers to cut into stages"
        )
    return max(lists, key=lambda blocks: sum(p.numel() for block in blocks for p in block.parameters()))


class Pieces:
    """Runs a model once and measures its embedding, one block of each type and its head, by name in
    `costs`.

    Hooks stand at the borders of the blocks: each ends the piece before it and hands a leaf to the next
    one.
    """

    def __init__(self, meter: Meter, model: Any) -> None:
        self._meter = meter
        self._model = model
        self._blocks = find_blocks(model)
        self._signatures: dict[str, tuple[torch.Size, ...]] = {}
        self.types = self._read_types()
        """The type of each block."""
        self.costs: dict[str, Cost] = {}
        self.mask_bytes = 0
        """Bytes of the S x S mask that blocks are given; 0 without one."""

    def run(self, tokens: Tensor) -> None:
        """Run the model on `tokens` [B, S]."""
        handles = []
        for index, block in enumerate(self._blocks):
            handles.append(block.register_forward_pre_hook(self._enter(index), with_kwargs=True))
            handles.append(block.register_forward_hook(self._leave(index)))
        self._meter.begin()
        scores = [value for value in self._model(input_ids=tokens).values() if isinstance(value, Tensor)]
        self.costs["head"] = self._meter.end(*scores, without=max(score.nbytes for score in scores))
        for handle in handles:
            handle.remove()

    def _read_types(self) -> list[str]:
        """`block`, `block.sliding` for local attention, and so on; a number is added where shapes differ."""
        kinds = getattr(self._model.config, "layer_types", None) or ["full_attention"] * len(self._blocks)
        return [self._type(block, str(kind)) for block, kind in zip(self._blocks, kinds, strict=True)]

    def _type(self, block: nn.Module, attention: str) -> str:
        local = attention.removesuffix("_attention")
        wanted = kind = "block" if local == "full" else f"block.{local}"
        signature = tuple(parameter.shape for parameter in block.parameters())
        number = 1
        while self._signatures.setdefault(kind, signature) != signature:
            number += 1
            kind = f"{wanted}.{number}"
        return kind

    def _enter(self, index: int) -> Any:
        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            hidden = args[0] if args else kwargs["hidden_states"]  # [B, S, h]
            self._note_mask(*args, *kwargs.values())
            if index == 0:
                self.costs["embedding"] = self._meter.end(hidden)
            leaf = hidden.detach()
            if self.types[index] in self.costs:
                torch.set_grad_enabled(False)
            else:
                leaf.requires_grad_()
                self._meter.begin()
            return ((leaf, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": leaf})

        return hook

    def _leave(self, index: int) -> Any:
        def hook(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> Any:
            hidden = output if isinstance(output, Tensor) else output[0]
            if self.types[index] not in self.costs:
                self.costs[self.types[index]] = self._meter.end(hidden)
            torch.set_grad_enabled(True)
            leaf = hidden.detach()
            if index == len(self._blocks) - 1:
                leaf.requires_grad_()
                self._meter.begin()
            return leaf if isinstance(output, Tensor) else (leaf, *output[1:])

        return hook

    def _note_mask(self, *values: Any) -> None:
        for value in values:
            if isinstance(value, Tensor) and value.ndim == 4:
                self.mask_bytes = max(self.mask_bytes, value.shape[-2] * value.shape[-1] * value.itemsize)
