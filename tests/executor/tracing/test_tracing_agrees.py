"""Do arithmetic and tracing say the same of every family?"""

from typing import Any

import pytest

from executor.tracing.tracing import trace
from profiles.model import Layer, ModelDescription
from tests.executor.tiny_models import SMALL, small
from tuner.estimate import describe
from tuner.families import FAMILIES

EXACT = ("name", "type", "kind", "shape", "parameters", "tied_group", "tied_parameters")
FLOPS = ("forward_flops", "backward_flops")


def both(config: dict[str, Any], **changes: Any) -> tuple[ModelDescription, ModelDescription]:
    options: dict[str, Any] = {"sequence_length": 64, "precision": "bfloat16", "attention": "flash"}
    options |= changes
    return describe(config, **options), trace(config, **options)


def pick(layer: Layer, fields: tuple[str, ...]) -> dict[str, Any]:
    return {field: getattr(layer, field) for field in fields}


def test_every_family_is_compared() -> None:
    """A family that is added must come with its small configurations."""
    assert set(SMALL) == set(FAMILIES)


@pytest.mark.parametrize(("precision", "sequence_length"), [("float32", 64), ("bfloat16", 40)])
@pytest.mark.parametrize("attention", ["eager", "flash"])
@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("family", SMALL)
def test_arithmetic_agrees_with_tracing(
    family: str, index: int, attention: str, precision: str, sequence_length: int
) -> None:
    """Parameters and FLOPs exactly, kept and crossing bytes within 1 %, transients within 25 %."""
    counted, traced = both(
        small(family, index), attention=attention, precision=precision, sequence_length=sequence_length
    )
    assert counted.parameters == traced.parameters
    assert counted.dropout == traced.dropout
    for ours, theirs in zip(counted.layers, traced.layers, strict=True):
        assert pick(ours, EXACT + FLOPS) == pick(theirs, EXACT + FLOPS)
        for micro_batch_size in (1, 4):
            kept, cut, transient = (
                (getattr(ours, field).at(micro_batch_size), getattr(theirs, field).at(micro_batch_size))
                for field in ("activation_bytes", "cut_bytes", "transient_bytes")
            )
            assert kept[0] == pytest.approx(kept[1], rel=0.01)
            assert cut[0] == pytest.approx(cut[1], rel=0.01)
            assert transient[0] == pytest.approx(transient[1], rel=0.25)


def test_a_real_model_is_counted_as_transformers_counts_it() -> None:
    """Llama 3 8B at full size, without its weights: parameters, FLOPs and bytes of every layer."""
    sizes = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32}
    config = {
        "model_type": "llama",
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
    }
    counted, traced = both(config | sizes, sequence_length=2048)
    assert counted.parameters == traced.parameters == 8_030_261_248
    assert counted.sample_flops == traced.sample_flops
    ours, theirs = (sum(layer.activation_bytes.at(1) for layer in x.layers) for x in (counted, traced))
    assert ours == pytest.approx(theirs, rel=0.01)
