"""Which module does a configuration stand for, built without weights?"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from executor.models import flash
from profiles.document import Attention, Precision
from tuner.errors import UnsupportedModelError
from tuner.families.recognition import check_modelled

DTYPES: dict[Precision, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
IMPLEMENTATIONS: dict[Attention, str] = {"flash": flash.NAME, "eager": "eager"}
ATTENTION_DROPOUTS = ("attn_pdrop", "attention_dropout", "attention_probs_dropout_prob")


def build(config: Mapping[str, Any], *, precision: Precision, attention: Attention) -> Any:
    """Build the model of a parsed config.json in training mode, its parameters in `precision`.

    Under FakeTensorMode no weight is allocated. BERT is built with both of its pre-training heads and
    one output bias, as its authors do; all else as a causal language model. Nothing that a
    configuration names is imported or run.
    """
    loaded = load_config(config, attention=attention)
    is_bert = loaded.model_type == "bert"
    auto = transformers.AutoModelForPreTraining if is_bert else transformers.AutoModelForCausalLM
    try:
        with default_dtype(DTYPES[precision]):
            model = auto.from_config(
                loaded,
                attn_implementation=IMPLEMENTATIONS[attention],
                dtype=DTYPES[precision],
                trust_remote_code=False,
            )
    except Exception as error:  # noqa: BLE001 - hundreds of model classes fail in their own ways
        hint = "Try eager attention, or " if attention == "flash" else "You can "
        raise UnsupportedModelError(
            f"transformers {transformers.__version__} cannot build a {loaded.model_type!r} model with "
            f"{attention} attention: {_first_line(error)}. {hint}give a measured profile."
        ) from None
    if is_bert:
        head = model.cls.predictions
        head.decoder.bias = head.bias
    return model.train()


def load_config(config: Mapping[str, Any], *, attention: Attention) -> Any:
    """Read a parsed config.json with the configuration class that `transformers` has for its `model_type`.

    Under flash the attention dropout is 0: kernels on GPUs draw it again in the backward and keep
    nothing.
    """
    kind = check_modelled(config)
    if kind not in transformers.CONFIG_MAPPING:
        raise UnsupportedModelError(
            f"transformers {transformers.__version__} knows no model_type {kind[:60]!r}. Give a measured "
            "profile instead."
        )
    values = {
        key: value for key, value in config.items() if key not in {"model_type", "transformers_version"}
    }
    try:
        loaded = transformers.AutoConfig.for_model(kind, **values)
    except Exception as error:  # noqa: BLE001 - the configuration classes validate in their own ways
        raise UnsupportedModelError(
            f"transformers {transformers.__version__} refuses the configuration: {_first_line(error)}"
        ) from None
    if loaded.is_encoder_decoder:
        raise UnsupportedModelError(
            f"the {loaded.model_type!r} model is an encoder-decoder, which is not one pipe of layers"
        )
    loaded.use_cache = False
    for key in ATTENTION_DROPOUTS:
        if attention == "flash" and hasattr(loaded, key):
            setattr(loaded, key, 0.0)
    return loaded


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Make `dtype` the default of new tensors, since `module.to(dtype)` fails on fake ones."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class DeviceDropout(TorchFunctionMode):
    """Dropout as on GPUs, which keeps a byte for each element; torch on the CPU keeps a factor for each."""

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        return _dropout(*args, **given) if func is nn.functional.dropout else func(*args, **given)


def _dropout(input: Tensor, p: float = 0.5, training: bool = True, **_: Any) -> Tensor:
    return torch.native_dropout(input, p, train=True)[0] if training and p > 0 else input


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300].rstrip(".")
