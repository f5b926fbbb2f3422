"""What is left of a model without its weights, and which layer needs which of them?

The model is built without allocating any large tensor and cut at its blocks. One run on fake tensors tells by
autograd which parameters are read before the blocks and which after them, tied ones in both.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from executor.models import construction as models
from executor.models import stand_ins
from executor.models.borders import Call, Shell, wrapped
from executor.models.stand_ins import Outline, Place
from executor.tracing.pieces import find_blocks
from profiles.document import Attention, Precision
from tuner.errors import UnsupportedModelError

IMPLEMENTATIONS: dict[Attention, str] = {"flash": "sdpa", "eager": "eager"}
"""What runs where a description says flash: torch's own choice among the fused kernels of the device."""

_TOKENS = (2, 8)
"""[B, S] of the run on fake tensors."""


@dataclass(frozen=True)
class Skeleton:
    """A model with borders for blocks and stand-ins for parameters; everything in it is small."""

    shell: Shell
    blocks: tuple[nn.Module, ...]
    block_names: tuple[str, ...]
    """Where each block stood, as "transformer.h.0"."""
    outlines: Mapping[str, Outline]
    """Shape and dtype of each parameter."""
    owned: tuple[tuple[Place, ...], ...]
    """Where each of the layers [embedding, blocks, head] reads its parameters, named from `shell.model`, or
    from the block. What nothing reads is the head's.
    """
    wraps: bool
    """Whether blocks give a tuple that begins with the hidden states."""

    @property
    def config(self) -> Any:
        """The configuration of the model."""
        return self.shell.model.config


def build_skeleton(config: Mapping[str, Any], *, precision: Precision, attention: Attention) -> Skeleton:
    """The skeleton of a parsed config.json; raises UnsupportedModelError saying why it cannot be cut."""
    model = _build(config, precision=precision, attention=attention)
    blocks = find_blocks(model)
    names = {id(module): name for name, module in model.named_modules()}
    places = stand_ins.places_of(model)
    parameters = dict(model.named_parameters())
    for module in list(model.modules()):
        for attribute in list(module._parameters):
            stand_ins.empty_out(module, attribute)
    shell = Shell(model, blocks)
    block_names = tuple(names[id(block)] for block in blocks)
    outer = [place for place in places if not place.name.startswith(tuple(f"{n}." for n in block_names))]
    survey = _survey(shell, blocks, places=outer)
    read = {place.parameter for place in places if place not in outer} | {
        place.parameter for place in (*survey.before, *survey.after)
    }
    unread = [place for place in outer if place.parameter not in read]
    return Skeleton(
        shell=shell,
        blocks=tuple(blocks),
        block_names=block_names,
        outlines={name: Outline(parameter.shape, parameter.dtype) for name, parameter in parameters.items()},
        owned=(survey.before, *_by_block(places, block_names), (*survey.after, *unread)),
        wraps=survey.wraps,
    )


def _by_block(places: Iterable[Place], names: tuple[str, ...]) -> Iterator[tuple[Place, ...]]:
    """The places inside each block, named from there."""
    for name in names:
        prefix = f"{name}."
        yield tuple(
            Place(place.module[len(prefix) :], place.attribute, place.parameter)
            for place in places
            if place.name.startswith(prefix)
        )


def _build(config: Mapping[str, Any], *, precision: Precision, attention: Attention) -> Any:
    with _NothingEmpty():
        model = models.build(config, precision=precision, attention=attention)
    try:
        model.set_attn_implementation(IMPLEMENTATIONS[attention])
    except Exception:  # noqa: BLE001 - transformers refuses in several ways
        raise UnsupportedModelError(
            f"the {model.config.model_type!r} model cannot run with {attention} attention: transformers has "
            "none of torch's fused kernels for it. Use eager attention."
        ) from None
    # With a padding token the model would look for it in every input, and wait for the device to tell.
    model.config.pad_token_id = None
    left = [name for name, buffer in model.named_buffers() if buffer.is_meta]
    if left:
        raise UnsupportedModelError(
            f"the {model.config.model_type!r} model computes its buffer {left[0]!r} from weights, so it "
            "cannot be built layer by layer. Give the layers by a factory instead."
        )
    return model


class _NothingEmpty(TorchFunctionMode):
    """Uninitialised tensors are made without storage: they are the weights that are filled in later."""

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(kwargs or {})
        if func is torch.empty:
            given["device"] = "meta"
        return func(*args, **given)


@dataclass(frozen=True)
class _Survey:
    before: tuple[Place, ...]
    """Places read before the blocks."""
    after: tuple[Place, ...]
    wraps: bool


def _survey(shell: Shell, blocks: list[nn.Module], *, places: list[Place]) -> _Survey:
    """Which of the `places` outside the blocks are read where."""
    kind = shell.model.config.model_type
    leaves = _as_leaves(shell, places)
    visitor = _Visitor(blocks, kind)
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            scores = shell.run(torch.zeros(_TOKENS, dtype=torch.long), visitor)
            before, after = _read_by([visitor.embedded], leaves), _read_by(scores, leaves)
    except UnsupportedModelError:
        raise
    except Exception as error:  # noqa: BLE001 - hundreds of model classes fail in their own ways
        raise UnsupportedModelError(
            f"the {kind!r} model cannot be cut at its blocks: {str(error)[:300]}. Give the layers by a "
            "factory instead."
        ) from None
    for number in leaves:
        leaves[number].tensor.requires_grad_(False)
    return _Survey(
        before=tuple(place for place in places if place in before),
        after=tuple(place for place in places if place in after),
        wraps=visitor.wraps,
    )


class _Visitor:
    """Passes the blocks by: the first is run to see in what it wraps its result, the last gives a leaf."""

    def __init__(self, blocks: list[nn.Module], kind: str) -> None:
        self._blocks = blocks
        self._kind = kind
        self.embedded: Any = None
        self.wraps = False

    def __call__(self, call: Call) -> Any:
        if any(isinstance(v, Tensor) and v.requires_grad for v in (*call.arguments, *call.options.values())):
            raise UnsupportedModelError(
                f"the blocks of the {self._kind!r} model read more than the hidden states of the one "
                "before, so they cannot stand on different devices. Give the layers by a factory instead."
            )
        if call.block == 0:
            self.embedded = call.hidden
            self.wraps = not isinstance(call.of(self._blocks[0], call.hidden.detach()), Tensor)
        hidden = call.hidden.detach().requires_grad_(call.block == len(self._blocks) - 1)
        return wrapped(hidden) if self.wraps else hidden


class _Leaf(NamedTuple):
    tensor: Tensor
    place: Place


def _as_leaves(shell: Shell, places: Iterable[Place]) -> dict[int, _Leaf]:
    """Let autograd see the stand-ins of `places`, by the identity of the tensor."""
    modules = dict(shell.model.named_modules())
    stand_ins_of = {place: modules[place.module].__dict__[place.attribute] for place in places}
    return {id(tensor): _Leaf(tensor.requires_grad_(), place) for place, tensor in stand_ins_of.items()}


def _read_by(roots: Iterable[Tensor], leaves: Mapping[int, _Leaf]) -> set[Place]:
    """Which of the `leaves` are in the graph behind `roots`."""
    seen: set[Any] = set()
    waiting: list[Any] = [root.grad_fn for root in roots]
    found = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = leaves.get(id(getattr(node, "variable", None)))
        if leaf is not None:
            found.add(leaf.place)
        waiting.extend(following for following, _ in node.next_functions)
    return found
