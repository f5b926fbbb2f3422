"""How is a model of `transformers` made layer by layer, any of them without the others?"""

import copy
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor, nn

from executor.errors import ConfigurationError
from executor.models import initialization
from executor.models.layers import BlockLayer, EmbeddingLayer, HeadLayer
from executor.models.loss import Loss
from executor.models.objectives import bert_pretraining, following_words, masked_words, next_token
from executor.models.skeleton import Skeleton, build_skeleton
from executor.models.surroundings import Surroundings
from profiles.document import Attention, Precision

Tied = tuple[tuple[int, str], ...]
"""Members of a group of tied parameters: layer number and the parameter's name in that layer."""


@dataclass(frozen=True)
class LayeredModel:
    """The layers [embedding, block 0 .. L−1, head] of a model, made when asked for."""

    skeleton: Skeleton
    double: bool = False
    """Whether the layers are turned into float64."""
    seed: int = 0
    sequence_length: int = 1
    """Of the samples that `batch` makes."""

    def __len__(self) -> int:
        """L + 2."""
        return len(self.skeleton.blocks) + 2

    def build(
        self, indices: Iterable[int] | None = None, *, device: str | torch.device = "cpu"
    ) -> list[nn.Module]:
        """The layers of these numbers (all by default) with their weights on `device`.

        The weights are drawn on the CPU, a layer at a time; on "meta" there are none. Copies of one layer are
        equal whoever makes them. Tied parameters are equal but separate: `share` makes them one.
        """
        wanted = range(len(self)) if indices is None else list(indices)
        for index in wanted:
            if not 0 <= index < len(self):
                raise ConfigurationError(
                    f"there is no layer {index}: the model has layers 0 to {len(self) - 1}"
                )
        return [self._layer(index, torch.device(device)) for index in wanted]

    def share(self, layers: Sequence[nn.Module]) -> None:
        """Make tied parameters one where `layers` are all layers of the model."""
        for (first, name), *others in self.tied:
            parameter = layers[first].get_parameter(name)
            for index, other in others:
                owner, _, attribute = other.rpartition(".")
                setattr(layers[index].get_submodule(owner), attribute, parameter)

    @property
    def has_ends(self) -> bool:
        """An embedding and a head."""
        return True

    @property
    def loss(self) -> Loss:
        """What the model is trained on: the next token, or BERT's two tasks."""
        return bert_pretraining() if self._is_bert else next_token()

    def batch(self, samples: int, *, seed: int) -> tuple[Tensor, Tensor]:
        """Synthetic tokens [samples, S] and targets for `loss`, the same for the same seed."""
        make = masked_words if self._is_bert else following_words
        return make(
            samples,
            sequence_length=self.sequence_length,
            vocabulary_size=self.skeleton.config.vocab_size,
            seed=seed,
        )

    @property
    def _is_bert(self) -> bool:
        return bool(self.skeleton.config.model_type == "bert")

    @cached_property
    def tied(self) -> tuple[Tied, ...]:
        """Groups of parameters that are one in the model but stand in several layers."""
        members: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for index in (0, len(self) - 1):
            for name, parameter in self.names(index).items():
                members[parameter].append((index, name))
        return tuple(tuple(group) for group in members.values() if len(group) > 1)

    def names(self, index: int) -> dict[str, str]:
        """The parameters of one layer: their names there, and in the state dict of `transformers`."""
        prefix = "block." if 0 < index < len(self) - 1 else "shell.model."
        found: dict[str, str] = {}
        for place in self.skeleton.owned[index]:
            found.setdefault(place.parameter, prefix + place.name)
        return {name: parameter for parameter, name in found.items()}

    def parameters(self, index: int) -> int:
        """Number of parameters of one layer, tied ones included."""
        return sum(self.skeleton.outlines[name].shape.numel() for name in self.names(index).values())

    def _layer(self, index: int, device: torch.device) -> nn.Module:
        layer, root = self._bare(index)
        outlines, on_meta = self.skeleton.outlines, device.type == "meta"
        made_on = device if on_meta else torch.device("cpu")
        filled = initialization.fill(root, self.skeleton.owned[index], outlines, device=made_on)
        if not on_meta:
            initialization.initialize(root, self.skeleton.shell.model, seed=self.seed, layer=index)
            self._copy_tied(index, filled)
        initialization.cast(filled, outlines)
        if self.double:
            layer.to(torch.float64)
        return layer.train().to(device)

    def _bare(self, index: int) -> tuple[nn.Module, nn.Module]:
        """A layer without its weights, and the module from which their places are named."""
        skeleton = self.skeleton
        blocks = len(skeleton.blocks)
        if 0 < index <= blocks:
            block = copy.deepcopy(skeleton.blocks[index - 1])
            return BlockLayer(block, index - 1, surroundings=self._surroundings), block
        shell = copy.deepcopy(skeleton.shell)
        if index == 0:
            return EmbeddingLayer(shell), shell.model
        return HeadLayer(shell, blocks=blocks, wraps=skeleton.wraps), shell.model

    def _copy_tied(self, index: int, filled: Mapping[str, nn.Parameter]) -> None:
        """The head's tied parameters begin as the embedding's."""
        shared = set(self.names(0).values()) & filled.keys()
        if index != len(self) - 1 or not shared:
            return
        _, root = self._bare(0)
        original = initialization.fill(
            root, self.skeleton.owned[0], self.skeleton.outlines, device=torch.device("cpu")
        )
        initialization.initialize(root, self.skeleton.shell.model, seed=self.seed, layer=0)
        for name in shared:
            filled[name].data = original[name].data

    @cached_property
    def _surroundings(self) -> Surroundings:
        skeleton = self.skeleton
        return Surroundings(skeleton.shell, blocks=len(skeleton.blocks), wraps=skeleton.wraps)


def cut(
    config: Mapping[str, Any],
    *,
    sequence_length: int,
    precision: Precision | Literal["float64"],
    attention: Attention,
    seed: int = 0,
) -> LayeredModel:
    """The layers of the model of a parsed config.json; raises UnsupportedModelError saying why it has none.

    Attention "flash" runs as torch's scaled_dot_product_attention.
    """
    built_in: Precision = "float32" if precision == "float64" else precision
    skeleton = build_skeleton(config, precision=built_in, attention=attention)
    return LayeredModel(skeleton, double=precision == "float64", seed=seed, sequence_length=sequence_length)
