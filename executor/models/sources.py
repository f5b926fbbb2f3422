"""What does --model stand for when it is run? Layers with weights, a loss and data."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

import torch
from torch import nn

from executor.errors import ConfigurationError
from executor.models.factories import FactoryModel, is_factory
from executor.models.loss import Loss
from executor.values import Batch
from profiles import library
from profiles.document import Attention, Precision
from profiles.model import ModelDescription
from tuner.errors import UnsupportedModelError
from tuner.estimate import describe
from tuner.families import FAMILIES

RunPrecision = Precision | Literal["float64"]


class Model(Protocol):
    """A model that can be run: a `LayeredModel` of `transformers`, or a user's `FactoryModel`."""

    @property
    def sequence_length(self) -> int:
        """Tokens of a sample."""

    @property
    def tied(self) -> Sequence[Sequence[tuple[int, str]]]:
        """Groups of (layer number, parameter name) that are one parameter."""

    @property
    def loss(self) -> Loss:
        """What is minimised."""

    @property
    def has_ends(self) -> bool:
        """Whether the first and the last layer are no blocks but what stands before and behind them."""

    def __len__(self) -> int:
        """Number of layers."""

    def build(
        self, indices: Iterable[int] | None = None, *, device: str | torch.device = "cpu"
    ) -> list[nn.Module]:
        """The layers of these numbers, all by default, with their weights: the same whoever builds them."""

    def share(self, layers: Sequence[nn.Module]) -> None:
        """Make tied parameters one where `layers` are all layers."""

    def batch(self, samples: int, *, seed: int) -> Batch:
        """Inputs and targets of that many samples, the same for the same seed."""


def open_model(
    model: str | Mapping[str, Any],
    *,
    sequence_length: int | None = None,
    precision: RunPrecision | None = None,
    attention: Attention | None = None,
    seed: int = 0,
) -> Model:
    """The model of a preset's name, a factory's name, or {"config": a parsed config.json}.

    What is None is the preset's own, else float32 and flash. A factory has its own precision and length.
    """
    if isinstance(model, str) and is_factory(model):
        return FactoryModel(model, seed=seed)
    from executor.models.layered import cut  # loads transformers, for seconds that a factory can do without

    config, length, own_precision, own_attention = _defaults(model)
    length = sequence_length or length
    if length is None:
        raise ConfigurationError("a sequence length is required with a config.json, which does not say it")
    chosen: RunPrecision = precision or own_precision
    fused = attention or own_attention
    _check(config, sequence_length=length, precision=chosen, attention=fused)
    return cut(config, sequence_length=length, precision=chosen, attention=fused, seed=seed)


def describe_model(
    model: str | Mapping[str, Any],
    *,
    sequence_length: int | None = None,
    precision: Precision | None = None,
    attention: Attention | None = None,
) -> ModelDescription:
    """The description of a preset or config: by arithmetic for known families, else by tracing."""
    config, length, own_precision, own_attention = _defaults(model)
    length = sequence_length or length
    if length is None:
        raise ConfigurationError("a sequence length is required with a config.json, which does not say it")
    from executor.tracing.tracing import trace  # loads transformers

    say = describe if config.get("model_type") in FAMILIES else trace
    return say(
        config,
        sequence_length=length,
        precision=precision or own_precision,
        attention=attention or own_attention,
        name=model if isinstance(model, str) else "config",
    )


def _defaults(
    model: str | Mapping[str, Any],
) -> tuple[Mapping[str, Any], int | None, Precision, Attention]:
    if isinstance(model, str):
        preset = library.load_model_preset(model)
        return preset.config, preset.sequence_length, preset.precision, preset.attention
    if "config" not in model:
        raise ConfigurationError("a profile has no weights to run: give the preset or config.json it is of")
    return model["config"], None, "float32", "flash"


def _check(
    config: Mapping[str, Any], *, sequence_length: int, precision: RunPrecision, attention: Attention
) -> None:
    """Refuse early, and in the words of the tuner, what its arithmetic refuses."""
    if sequence_length < 1:
        raise UnsupportedModelError(f"the sequence length must be at least 1, got {sequence_length:,}")
    if config.get("model_type") in FAMILIES:
        known: Precision = "float32" if precision == "float64" else precision
        describe(config, sequence_length=sequence_length, precision=known, attention=attention)
