"""What is in a model, found out by running its layers on tensors without data?

Any architecture that `transformers` builds without weights is described as `tuner.estimate` describes
the families it knows: the model runs on fake tensors, each layer cut out by detaching its input, at two
micro-batch sizes that tell the bytes of a sample from those that the batch shares.
"""

import logging
from collections.abc import Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from executor.models import construction as models
from executor.tracing.metering import Cost, Meter
from executor.tracing.pieces import Pieces, find_blocks
from profiles.document import Attention, Precision
from profiles.model import Bytes, Layer, LayerKind, ModelDescription
from tuner.errors import UnsupportedModelError
from tuner.families.loss import loss_layer

# A model that cannot run on fake tensors is refused in one sentence; torch would log a stack trace besides.
logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)

MICRO_BATCHES = (2, 3)
DROPOUTS = ("resid_pdrop", "hidden_dropout_prob", "hidden_dropout", "dropout")


def trace(
    config: Mapping[str, Any],
    *,
    sequence_length: int,
    precision: Precision,
    attention: Attention,
    name: str = "model",
) -> ModelDescription:
    """Describe the model of a parsed config.json by tracing it; raises UnsupportedModelError if it cannot
    be.
    """
    with FakeTensorMode(allow_non_fake_inputs=True), models.default_dtype(models.DTYPES[precision]):
        model = models.build(config, precision=precision, attention=attention)
        if not getattr(model.config, "num_attention_heads", None):
            raise UnsupportedModelError(
                f"the {model.config.model_type!r} model has no attention heads: the kernels of recurrent and "
                "state-space models cannot be told by tracing. Give a measured profile instead."
            )
        runs = [
            _run(model, size, sequence_length=sequence_length, attention=attention) for size in MICRO_BATCHES
        ]
    layers = _Layers(model, runs, sequence_length=sequence_length, itemsize=models.DTYPES[precision].itemsize)
    loaded = model.config
    loss = loss_layer(sequence_length=sequence_length, vocabulary_size=loaded.vocab_size, precision=precision)
    return ModelDescription(
        name=name,
        family=loaded.model_type,
        sequence_length=sequence_length,
        precision=precision,
        attention=attention,
        dropout=float(_first(loaded, DROPOUTS, 0.0)),
        hidden_size=loaded.hidden_size,
        vocabulary_size=loaded.vocab_size,
        source="traced",
        layers=(layers.embedding(), *layers.blocks(), layers.head(), loss),
    )


def _run(model: Any, micro_batch_size: int, *, sequence_length: int, attention: Attention) -> Pieces:
    try:
        with models.DeviceDropout(), Meter(model) as meter:
            pieces = Pieces(meter, model)
            pieces.run(torch.zeros(micro_batch_size, sequence_length, dtype=torch.long))
            if attention == "flash" and not meter.saw_fused_attention:
                raise UnsupportedModelError(
                    f"the {model.config.model_type!r} model of transformers has no fused attention: use eager"
                )
    except UnsupportedModelError:
        raise
    except Exception as error:  # noqa: BLE001 - hundreds of model classes fail in their own ways
        raise UnsupportedModelError(
            f"the {model.config.model_type!r} model cannot be traced with sequence length "
            f"{sequence_length:,}: {str(error)[:300]}. Give a measured profile instead."
        ) from None
    finally:
        torch.set_grad_enabled(True)
    return pieces


class _Layers:
    """Turns the costs of the pieces at two micro-batch sizes into layers."""

    def __init__(self, model: Any, runs: list[Pieces], *, sequence_length: int, itemsize: int) -> None:
        self._config = model.config
        self._model = model
        self._runs = runs
        self._itemsize = itemsize
        self._position_bytes = sequence_length * itemsize
        crossing = self._config.hidden_size + (1 if self._config.model_type == "bert" else 0)
        self._cut = self._position_bytes * crossing
        ends = (runs[0].costs["embedding"].parameters, runs[0].costs["head"].parameters)
        self._tied = sum(size for name, size in ends[0].items() if name in ends[1])

    def embedding(self) -> Layer:
        """All that runs before the first block."""
        return self._layer("embedding", "embedding", cut=self._cut)

    def blocks(self) -> list[Layer]:
        """The blocks; one of each type was measured."""
        types = self._runs[0].types
        built = {kind: self._layer(kind, "block", cut=self._cut) for kind in dict.fromkeys(types)}
        return [
            built[kind].model_copy(update={"name": f"layers.{index}"}) for index, kind in enumerate(types)
        ]

    def head(self) -> Layer:
        """All that runs after the last block; parameters that got no gradient anywhere are its own."""
        used = {name for cost in self._runs[0].costs.values() for name in cost.parameters}
        inside = {id(p) for block in find_blocks(self._model) for p in block.parameters()}
        unused = sum(
            parameter.numel()
            for name, parameter in self._model.named_parameters()
            if name not in used and id(parameter) not in inside
        )
        return self._layer(
            "head", "head", cut=self._position_bytes * self._config.vocab_size, more_parameters=unused
        )

    def _layer(self, name: str, kind: LayerKind, *, cut: int, more_parameters: int = 0) -> Layer:
        small, large = (run.costs[name] for run in self._runs)
        parameters = sum(small.parameters.values()) + more_parameters
        tied = 0 if kind == "block" else self._tied
        return Layer(
            name=name,
            type=name,
            kind=kind,
            shape=_shape(self._config) if kind == "block" else {},
            parameters=parameters,
            active_parameters=parameters,
            tied_group="embedding" if tied else None,
            tied_parameters=tied,
            forward_flops=small.forward_flops // MICRO_BATCHES[0],
            backward_flops=small.backward_flops // MICRO_BATCHES[0],
            activation_bytes=_affine(small.kept_bytes, large.kept_bytes),
            transient_bytes=self._transient(kind, small, large),
            cut_bytes=Bytes(per_sample=cut),
        )

    def _transient(self, kind: LayerKind, small: Cost, large: Cost) -> Bytes:
        """By the rule of `tuner.families.tape`: worst tensor, waiting gradient, largest weight, mask."""
        worst = _affine(small.worst_bytes, large.worst_bytes)
        waiting = self._position_bytes * self._config.hidden_size
        weight = max(small.parameters.values(), default=0) * self._itemsize
        mask = self._runs[0].mask_bytes if kind == "block" else 0
        return Bytes(per_sample=worst.per_sample + waiting, fixed=worst.fixed + weight + mask)


def _affine(small: int, large: int) -> Bytes:
    """`fixed + per_sample * B` through the values at both micro-batch sizes."""
    step = max(0, (large - small) // (MICRO_BATCHES[1] - MICRO_BATCHES[0]))
    return Bytes(per_sample=step, fixed=max(0, small - step * MICRO_BATCHES[0]))


def _shape(config: Any) -> dict[str, int | str]:
    heads = config.num_attention_heads
    return {
        "family": config.model_type,
        "hidden_size": config.hidden_size,
        "heads": heads,
        "kv_heads": _first(config, ("num_key_value_heads",), heads),
        "intermediate_size": _first(
            config, ("intermediate_size", "ffn_dim", "n_inner"), 4 * config.hidden_size
        ),
    }


def _first(config: Any, keys: tuple[str, ...], otherwise: Any) -> Any:
    values = (getattr(config, key, None) for key in keys)
    return next((value for value in values if value is not None), otherwise)
