"""How does a model of the user's own come in? Through a factory: module:function or file.py:function.

The factory is called without arguments and returns

- a list of `torch.nn.Module` layers, each called with what the one before it gave (a tuple is spread), or
- an object with attributes:
    layers                        that list (required)
    loss                          `executor.Loss`, or a function (output, target) -> mean; cross-entropy
                                  over the last dimension of the output by default
    batch(samples, *, seed)       gives (inputs, targets) of that many samples, samples first (required to run
                                  or measure)
    tied                          groups of ((layer number, parameter name), ...) that are one parameter
    sequence_length               tokens of a sample; 1 by default

It runs with torch's random numbers seeded, in every process, and must give the same layers each time. Only
commands on the user's own host take factories: running one is running its code.
"""

import hashlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from executor.errors import ConfigurationError, ModelError
from executor.models.loss import Loss, cross_entropy, samples
from executor.values import Batch, Tensors, as_tensors

_NAME = re.compile(r"(?P<where>.+\.py|[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<function>[^\W\d]\w*)")
_SHOWN = 200


class FactoryModel:
    """The layers, loss and data that a factory gives; called again for every set of layers."""

    def __init__(self, name: str, *, seed: int = 0) -> None:
        """Import the factory and call it once; raises ConfigurationError or ModelError naming it."""
        self.name = name
        self._seed = seed
        self._factory = load_factory(name)
        self._made = self._make()
        self._count = len(self._layers_of(self._made))
        if any(not 0 <= layer < self._count for group in self.tied for layer, _ in group):
            raise ModelError(f"the factory {name} ties layers beyond its {self._count}: {self.tied}")

    def __len__(self) -> int:
        """Number of layers."""
        return self._count

    def build(
        self, indices: Iterable[int] | None = None, *, device: str | torch.device = "cpu"
    ) -> list[nn.Module]:
        """The layers of these numbers (all by default) on `device`, new ones each time."""
        layers = self._layers_of(self._make())
        if len(layers) != self._count:
            raise ModelError(
                f"the factory {self.name} gave {self._count} layers at first and {len(layers)} now: it must "
                "give the same each time"
            )
        for _, *others in self.tied:
            for index, name in others:
                _put(layers[index], name, nn.Parameter(layers[index].get_parameter(name).detach().clone()))
        wanted = range(len(layers)) if indices is None else indices
        return [layers[index].train().to(device) for index in wanted]

    def share(self, layers: Sequence[nn.Module]) -> None:
        """Make tied parameters one where `layers` are all layers of the model."""
        for (first, name), *others in self.tied:
            for index, other in others:
                _put(layers[index], other, layers[first].get_parameter(name))

    @property
    def sequence_length(self) -> int:
        """Tokens of a sample."""
        return int(getattr(self._made, "sequence_length", 1))

    @cached_property
    def tied(self) -> tuple[tuple[tuple[int, str], ...], ...]:
        """The groups that the factory names; sharing that it does not name is refused: ranks hold copies."""
        groups = getattr(self._made, "tied", ())
        named = tuple(tuple((int(layer), str(name)) for layer, name in group) for group in groups)
        members = {member for group in named for member in group}
        owners: dict[int, tuple[int, str]] = {}
        for index, layer in enumerate(self._layers_of(self._made)):
            for name, parameter in layer.named_parameters():
                other = owners.setdefault(id(parameter), (index, name))
                if other[0] != index and not {other, (index, name)} <= members:
                    raise ModelError(
                        f"the factory {self.name} shares one parameter between layer {other[0]} ({other[1]}) "
                        f"and layer {index} ({name}): name both in `tied`, or give each layer its own"
                    )
        return named

    @property
    def has_ends(self) -> bool:
        """All layers may be cut apart."""
        return False

    @property
    def loss(self) -> Loss:
        """The factory's loss, else mean cross-entropy over the last dimension."""
        given = getattr(self._made, "loss", None)
        if given is None:
            return cross_entropy()
        if isinstance(given, Loss):
            return given
        if not callable(given):
            raise ModelError(
                f"the factory {self.name} has a loss of type {type(given).__name__}: give a function"
            )
        return Loss(given, samples)

    def batch(self, count: int, *, seed: int) -> Batch:
        """Inputs and targets of `count` samples."""
        make = getattr(self._made, "batch", None)
        if not callable(make):
            raise ModelError(
                f"the factory {self.name} returned {self._told(self._made)} without batch(samples, *, seed), "
                "so there is no data: return an object with `layers` and `batch`"
            )
        try:
            inputs, targets = make(count, seed=seed)
            tensors: Tensors = as_tensors(inputs)
        except Exception as error:
            raise ModelError(
                f"batch({count}, seed={seed}) of the factory {self.name} failed: {error}"
            ) from error
        sizes = {tensor.shape[0] if tensor.ndim else 0 for tensor in (*tensors, targets)}
        if sizes != {count}:
            raise ModelError(
                f"batch({count}) of the factory {self.name} gave tensors whose first dimensions are "
                f"{sorted(sizes)}: each must be {count}, the number of samples"
            )
        return tensors, targets

    def _make(self) -> Any:
        own = os.getpid()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed)
            try:
                made = self._factory()
                if os.getpid() != own:
                    os._exit(0)  # a copy that the factory has made of this process must not go on beside it
                return made
            except Exception as error:
                raise ModelError(
                    f"the factory {self.name} raised {type(error).__name__}: {str(error)[:_SHOWN]}"
                ) from error

    def _layers_of(self, made: Any) -> list[nn.Module]:
        found = getattr(made, "layers", made)
        layers = list(found) if isinstance(found, list | tuple | nn.ModuleList | nn.Sequential) else []
        wrong = next((layer for layer in layers if not isinstance(layer, nn.Module)), None)
        if not layers or wrong is not None:
            what = self._told(made) if wrong is None else f"a list that holds a {type(wrong).__name__}"
            raise ModelError(
                f"the factory {self.name} returned {what}: it must return a list of torch.nn.Module layers, "
                "or an object whose `layers` is one"
            )
        return layers

    @staticmethod
    def _told(made: Any) -> str:
        is_empty = isinstance(made, list | tuple) and not made
        return "an empty list" if is_empty else f"a value of type {type(made).__name__}"


def _put(layer: nn.Module, name: str, parameter: nn.Parameter) -> None:
    owner, _, attribute = name.rpartition(".")
    setattr(layer.get_submodule(owner), attribute, parameter)


def is_factory(name: str) -> bool:
    """Whether a name reads as module:function or file.py:function."""
    return _NAME.fullmatch(name) is not None


def load_factory(name: str) -> Callable[[], Any]:
    """Import the function that `name` means; raises ConfigurationError saying what was not found.

    The working folder is appended to the places where modules are looked for, behind all others, so that
    nothing in it hides an installed module.
    """
    matched = _NAME.fullmatch(name)
    if matched is None:
        raise ConfigurationError(
            f"{name[:_SHOWN]!r} names no factory: write package.module:function or path/file.py:function"
        )
    where, function = matched["where"], matched["function"]
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        module = _from_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    except Exception as error:
        raise ConfigurationError(
            f"cannot import {where!r} for the factory {name}: {type(error).__name__}: {str(error)[:_SHOWN]}"
        ) from error
    found: Callable[[], Any] | None = getattr(module, function, None)
    if not callable(found):
        what = "is no function" if hasattr(module, function) else "is not there"
        raise ConfigurationError(f"the factory {name} cannot be called: {function!r} {what} in {where}")
    return found


def _from_file(path: Path) -> ModuleType:
    """Import a file under a name of its own, once; its folder is searched too, behind all others."""
    full = path.expanduser().resolve(strict=True)
    name = f"factory_{full.stem}_{hashlib.sha256(str(full).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    if str(full.parent) not in sys.path:
        sys.path.append(str(full.parent))
    spec = importlib.util.spec_from_file_location(name, full)
    if spec is None or spec.loader is None:
        raise ImportError(f"{full} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
