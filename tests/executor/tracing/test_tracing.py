"""Does tracing without data find what a run with data keeps and computes?"""

from typing import Any

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from executor.models import construction as models
from executor.tracing.metering import Meter
from executor.tracing.pieces import Pieces
from executor.tracing.tracing import trace
from profiles.model import Layer, ModelDescription
from tests.executor.tiny_models import small
from tuner.errors import UnsupportedModelError


def traced(config: dict[str, Any], **changes: Any) -> ModelDescription:
    options: dict[str, Any] = {"sequence_length": 32, "precision": "bfloat16", "attention": "flash"}
    return trace(config, **(options | changes))


def layer(description: ModelDescription, name: str) -> Layer:
    return next(found for found in description.layers if found.name == name)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", ["gpt2", "bert", "llama"])
def test_fake_tensors_keep_what_real_ones_keep(family: str, precision: str) -> None:
    """The same model with data on the CPU keeps the same bytes in each layer and computes the same FLOPs."""
    config = small(family)
    description = traced(config, precision=precision, attention="eager")
    with models.default_dtype(models.DTYPES[precision]):  # type: ignore[index]
        model = models.build(config, precision=precision, attention="eager")  # type: ignore[arg-type]
        with models.DeviceDropout(), Meter(model) as meter:
            pieces = Pieces(meter, model)
            pieces.run(torch.zeros(5, 32, dtype=torch.long))
    for name, kind in (("embedding", "embedding"), ("layers.0", "block"), ("head", "head")):
        found, real = layer(description, name), pieces.costs[kind]
        assert found.activation_bytes.at(5) == pytest.approx(real.kept_bytes, rel=0.001)
        assert (5 * found.forward_flops, 5 * found.backward_flops) == (
            real.forward_flops,
            real.backward_flops,
        )


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_fused_attention_keeps_what_a_real_fused_kernel_keeps(family: str) -> None:
    """A block run with torch's own fused attention saves the same storages as our operator of shapes."""
    config = small(family, 1)
    description = traced(config, precision="float32")
    with models.default_dtype(torch.float32):
        model = models.build(config, precision="float32", attention="eager")
        model.set_attn_implementation("sdpa")
    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    block = (model.transformer.h if family == "gpt2" else model.bert.encoder.layer)[0]
    kept: dict[int, tuple[int, torch.Tensor]] = {}

    def save(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    hidden = torch.randn(4, 32, model.config.hidden_size, requires_grad=True)
    with saved_tensors_hooks(save, lambda tensor: tensor):
        block(hidden)
    real = sum(size for size, _ in kept.values())
    assert layer(description, "layers.0").activation_bytes.at(4) == pytest.approx(real, rel=0.01)


def test_an_architecture_without_arithmetic_is_described_too() -> None:
    """StarCoder 2 is no known family; its layers come out as those of any other."""
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128}
    description = traced({"model_type": "starcoder2", "num_hidden_layers": 3, "vocab_size": 100} | sizes)
    assert (description.source, description.family) == ("traced", "starcoder2")
    assert [found.kind for found in description.layers] == ["embedding", *["block"] * 3, "head", "loss"]
    block = description.layers[1]
    assert block.forward_flops == 2 * 32 * (64 * (64 + 32 + 32 + 64) + 2 * 64 * 128) + 4 * 32 * 32 * 64


def test_tracing_leaves_torch_as_it_was() -> None:
    """Neither the default precision nor gradients are switched for who comes after."""
    before = torch.get_default_dtype()
    traced(small("gpt2"), precision="float16")
    assert torch.get_default_dtype() == before
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({}, "no model_type"),
        ({"model_type": "nonsense"}, "knows no model_type 'nonsense'"),
        ({"model_type": "t5"}, "encoder-decoder"),
        ({"model_type": "mixtral"}, "mixture of experts"),
        ({"model_type": "llama", "auto_map": {}}, "auto_map"),
        ({"model_type": "llama", "hidden_size": -1}, "refuses the configuration|cannot build"),
        ({"model_type": "llama", "hidden_size": 30, "num_attention_heads": 7}, "refuses the configuration"),
        ({"model_type": "clip_text_model"}, "cannot build"),
        ({"model_type": "bloom", "n_layer": 2, "hidden_size": 64, "n_head": 4}, "no fused attention"),
        ({"model_type": "rwkv", "num_hidden_layers": 2, "hidden_size": 64}, "no attention heads"),
    ],
    ids=str,
)
def test_what_cannot_be_traced_is_refused_in_one_sentence(config: dict[str, Any], reason: str) -> None:
    """No stack trace, and no code of the configuration is run."""
    with pytest.raises(UnsupportedModelError, match=reason) as refusal:
        traced(config)
    assert len(str(refusal.value)) < 700
