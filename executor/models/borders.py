"""What happens where a model calls its blocks, when the blocks themselves are elsewhere?

A model whose blocks are replaced by borders runs all that is before, between and after them. Who runs it says
what a border gives: the hidden states that came in, others, or nothing more (the run stops there).
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import Tensor, nn

from executor.models import stand_ins


class Call(NamedTuple):
    """How a model called one of its blocks."""

    block: int
    """Its number."""
    hidden: Tensor
    """[B, S, h]"""
    arguments: tuple[Any, ...]
    """Positional arguments after the hidden states."""
    options: Mapping[str, Any]
    by_name: bool
    """Whether the hidden states came as `hidden_states=`."""

    def of(self, block: nn.Module, hidden: Tensor) -> Any:
        """Call `block` the same way with other hidden states."""
        if self.by_name:
            return block(*self.arguments, hidden_states=hidden, **self.options)
        return block(hidden, *self.arguments, **self.options)


Visit = Callable[[Call], Any]
"""Told of every call of a block; gives what the block would have."""


class Reached(Exception):  # noqa: N818 - not an error: the way out of a model that has done its part
    """The run has come as far as was wanted."""

    def __init__(self, hidden: Tensor) -> None:
        super().__init__()
        self.hidden = hidden


class Shell(nn.Module):
    """A model with borders in place of its blocks."""

    def __init__(self, model: Any, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.model = model
        self._turn = _Turn()
        places = [place for place in model.modules() if isinstance(place, nn.ModuleList)]
        home = next(place for place in places if len(place) == len(blocks) and place[0] is blocks[0])
        for index, block in enumerate(blocks):
            home[index] = Border(index, block, turn=self._turn)

    def run(self, tokens: Tensor, visit: Visit) -> list[Tensor]:
        """Run on `tokens` [B, S]; gives the tensors that the model returns, logits [B, S, V] first."""
        self._turn.visit = visit
        try:
            return [value for value in self.model(input_ids=tokens).values() if isinstance(value, Tensor)]
        finally:
            self._turn.visit = None

    def forward(self, *_: Any) -> Any:
        """A shell is run by `run`, which says what happens at the borders."""
        raise TypeError("a shell has no forward of its own: use run")

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        stand_ins.convert(self, fn)
        return self


class Border(nn.Module):
    """Stands where a block was; what the model asks the block for, other than running, it still gets."""

    def __init__(self, index: int, block: nn.Module, *, turn: "_Turn") -> None:
        super().__init__()
        self._index = index
        self._turn = turn
        self._block = _Aside(block)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Ask the run that is going on."""
        if self._turn.visit is None:
            raise TypeError("a border was reached outside a run of its shell")
        if args:
            return self._turn.visit(Call(self._index, args[0], args[1:], kwargs, by_name=False))
        options = dict(kwargs)
        hidden = options.pop("hidden_states")
        return self._turn.visit(Call(self._index, hidden, (), options, by_name=True))

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("__") or "_block" not in self.__dict__:
                raise
            return getattr(self._block.module, name)


def wrapped(hidden: Tensor) -> tuple[Tensor, None]:
    """The result of a block that gives more than hidden states; what else it gives nobody asked for."""
    return hidden, None


class _Turn:
    """Whose run it is."""

    visit: Visit | None = None


class _Aside:
    """Keeps a module out of the sight of `parameters()`, `to()` and copying."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def __deepcopy__(self, memo: Any) -> "_Aside":
        return self
