"""What is a block given besides the hidden states: masks, positions, rotations?

The same for all tokens, so it is computed once for each shape, by running what surrounds the blocks.
"""

import copy
from typing import Any

import torch
from torch import Tensor

from executor.models import stand_ins
from executor.models.borders import Call, Reached, Shell, Visit, wrapped

MOST_SHAPES = 8
"""Shapes that are remembered; an eager mask takes B·S² elements."""

_Key = tuple[tuple[int, ...], torch.device, torch.dtype, type]


class Surroundings:
    """The calls that a model makes to its blocks, by shape, device and dtype of the hidden states."""

    def __init__(self, shell: Shell, *, blocks: int, wraps: bool) -> None:
        self._shell = shell
        self._blocks = blocks
        self._wraps = wraps
        self._calls: dict[_Key, list[Call]] = {}

    def call(self, index: int, hidden: Tensor) -> Call:
        """How the model calls block `index` on hidden states [B, S, h] like these."""
        key = (tuple(hidden.shape), hidden.device, hidden.dtype, type(hidden))
        calls = self._calls.get(key)
        if calls is None:
            while len(self._calls) >= MOST_SHAPES:
                del self._calls[next(iter(self._calls))]
            calls = self._calls[key] = self._listen(hidden)
        return calls[index]

    def _listen(self, hidden: Tensor) -> list[Call]:
        shell = copy.deepcopy(self._shell)
        shell.to(hidden.device)
        if hidden.dtype == torch.float64:
            shell.to(hidden.dtype)
        stand_ins.convert(shell, lambda number: number.to(hidden.device, hidden.dtype))
        calls: list[Call] = []
        tokens = torch.zeros(hidden.shape[:2], dtype=torch.long, device=hidden.device)  # [B, S]
        try:
            with torch.no_grad():
                shell.eval().run(tokens, self._note(calls))
        except Reached:
            pass
        return calls

    def _note(self, calls: list[Call]) -> Visit:
        def visit(call: Call) -> Any:
            calls.append(call._replace(hidden=call.hidden.new_empty(0)))
            if len(calls) == self._blocks:
                raise Reached(call.hidden)
            return wrapped(call.hidden) if self._wraps else call.hidden

        return visit

    def __deepcopy__(self, memo: Any) -> "Surroundings":
        """Shared by all copies of the layers: nothing of it is trained."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_calls": {}}
