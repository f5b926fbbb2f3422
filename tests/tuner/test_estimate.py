"""Does arithmetic alone describe a model and its times?"""

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiles.device import Accelerator, Efficiency
from profiles.model import Layer, ModelDescription
from tuner.errors import UnsupportedModelError
from tuner.estimate import describe, estimate_timings, layer_times
from tuner.families.reading import quote

BERT_48 = {
    "model_type": "bert",
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "num_hidden_layers": 48,
    "intermediate_size": 4096,
    "tie_word_embeddings": False,
}
GPT2_64 = {"model_type": "gpt2", "n_layer": 64, "n_embd": 1280, "n_head": 20, "tie_word_embeddings": False}
LLAMA_7B = {"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096}
"""Whose other sizes are the family's defaults."""
LLAMA_3_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}
GEMMA_2B = {"model_type": "gemma", "hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 18,
            "num_attention_heads": 8, "num_key_value_heads": 1, "hidden_act": "gelu"}  # fmt: skip
GEMMA = {"model_type": "gemma2", "num_hidden_layers": 26, "hidden_size": 2304}
LLAMA_3_70B = LLAMA_3_8B | {
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "intermediate_size": 28672,
}


def described(config: dict[str, Any], **changes: Any) -> ModelDescription:
    options: dict[str, Any] = {"sequence_length": 128, "precision": "bfloat16", "attention": "flash"}
    return describe(config, **(options | changes))


def block(config: dict[str, Any], **changes: Any) -> Layer:
    return next(layer for layer in described(config, **changes).layers if layer.kind == "block")


def accelerator(**changes: Any) -> Accelerator:
    efficiency: dict[str, Any] = {
        "matmul_peak_share": 0.5,
        "half_peak_flops": 0.0,
        "bandwidth_share": 0.5,
        "launch_s": 0.0,
        "provenance": "estimated",
        "source": "a test",
    }
    return Accelerator(
        name="test",
        vendor="test",
        peak_flops={"float32": 1e12, "bfloat16": 2e12},
        memory_bytes=16 * 10**9,
        memory_bandwidth_bytes_per_s=1e12,
        efficiency=Efficiency(**(efficiency | changes)),
        sources=dict.fromkeys(("peak_flops", "memory_bytes", "memory_bandwidth_bytes_per_s"), "a test"),
    )


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (BERT_48, 669_790_012),
        (GPT2_64, 1_389_327_360),
        (GPT2_64 | {"n_layer": 32}, 759_649_280),
        (LLAMA_7B, 6_738_415_616),
        (LLAMA_3_8B, 8_030_261_248),
        (LLAMA_3_70B, 70_553_706_496),
        ({"model_type": "gpt2", "n_layer": 12, "n_embd": 768}, 124_439_808),
        (LLAMA_7B | {"model_type": "mistral"}, 7_241_732_096),
        (GEMMA_2B, 2_506_172_416),
    ],
)
def test_parameters_are_those_of_the_published_models(config: dict[str, Any], parameters: int) -> None:
    """The counts of the papers and model cards are met to the last parameter."""
    assert described(config).parameters == parameters


def test_the_layers_of_bert_48_are_those_of_the_paper() -> None:
    """Embeddings, layer and the three heads have the published sizes."""
    layers = described(BERT_48, precision="float32", attention="eager").layers
    assert [layers[0].parameters, layers[1].parameters] == [31_782_912, 12_596_224]
    assert layers[-2].parameters == 1_049_600 + 32_336_698 + 2_050
    assert [layer.name for layer in layers[:2]] == ["embedding", "layers.0"]
    assert [layer.name for layer in layers[-3:]] == ["layers.47", "head", "loss"]


@pytest.mark.parametrize("config", [BERT_48, GPT2_64], ids=["bert", "gpt2"])
def test_a_plain_block_computes_24_s_h2_plus_4_s2_h(config: dict[str, Any]) -> None:
    """The forward is exact and the backward twice as much, without a causal half taken off."""
    layer = block(config, precision="float32", attention="eager")
    hidden = config.get("hidden_size") or config["n_embd"]
    assert layer.forward_flops == 24 * 128 * hidden**2 + 4 * 128**2 * hidden
    assert layer.backward_flops == 2 * layer.forward_flops


def test_hidden_states_cross_a_cut_and_for_bert_its_mask_too() -> None:
    """GPT-2 sends S·h and BERT S·h + S values of each sample."""
    assert block(GPT2_64, precision="float32", sequence_length=632).cut_bytes.at(1) == 4 * 632 * 1280
    assert block(BERT_48, precision="float32").cut_bytes.at(2) == 2 * 4 * (128 * 1024 + 128)


@pytest.mark.parametrize(
    ("attention", "dropout", "function", "bytes_per_element"),
    [
        ("eager", 0.1, "gelu", 34 + 5 * 16 * 1024 / 1024),
        ("eager", 0.0, "gelu", 32 + 2 * 16 * 1024 / 1024),
        ("flash", 0.0, "gelu", 32),
        ("flash", 0.0, "gelu_new", 32 + 24),
    ],
)
def test_a_half_precision_block_keeps_what_the_literature_counts(
    attention: str, dropout: float, function: str, bytes_per_element: float
) -> None:
    """34 + 5as/h bytes per S·h of Korthikanti et al.; 32 + 2as/h without dropout; gelu_new keeps 24 more."""
    config = GPT2_64 | {"n_embd": 1024, "n_head": 16, "activation_function": function}
    drops = dict.fromkeys(("resid_pdrop", "attn_pdrop", "embd_pdrop"), dropout)
    layer = block(config | drops, attention=attention, sequence_length=1024, precision="float16")
    statistics = 16 + (4 * 16 if attention == "flash" else 0)  # float32: two norms, log-sum-exp of each head
    kept = layer.activation_bytes.at(1) - 1024 * statistics
    assert kept == 1024 * 1024 * bytes_per_element


@pytest.mark.parametrize(
    ("width", "heads", "weight_gradients_mib", "peaks_mib"),
    [
        (768, 12, 27.04, {1: 39.54, 8: 68.05, 16: 106.05, 64: 245.04}),
        (1024, 16, 48.05, {1: 67.05, 8: 100.07, 16: 144.07, 64: 336.05}),
    ],
)
def test_transients_are_near_those_measured_on_gpus(
    width: int, heads: int, weight_gradients_mib: float, peaks_mib: dict[int, float]
) -> None:
    """Within 30 % of the peaks published beside the layer times of Chimera, less the weight gradients."""
    sizes = {"hidden_size": width, "num_attention_heads": heads, "intermediate_size": 4 * width}
    rule = block(BERT_48 | sizes, precision="float32", attention="eager").transient_bytes
    for micro_batch_size, peak in peaks_mib.items():
        measured = (peak - weight_gradients_mib) * 2**20
        assert rule.at(micro_batch_size) == pytest.approx(measured, rel=0.3)


def test_the_loss_holds_12_bytes_a_score_in_float32_and_16_in_mixed_precision() -> None:
    """Each live micro-batch keeps 4 of them; the rest exists while one loss runs. There are no FLOPs."""
    for precision, transient in (("float32", 8), ("bfloat16", 12)):
        loss = described(GPT2_64, precision=precision).layers[-1]
        assert loss.activation_bytes.at(3) == 3 * 4 * 128 * 50257
        assert loss.transient_bytes.at(3) == 3 * transient * 128 * 50257
        assert (loss.parameters, loss.forward_flops, loss.cut_bytes.at(1)) == (0, 0, 0)


def test_tied_embeddings_are_counted_once() -> None:
    """Embedding and head share one group; the total holds it once."""
    tied, own = (described(GPT2_64 | {"tie_word_embeddings": flag}) for flag in (True, False))
    assert tied.tied_groups() == {"embedding": 50257 * 1280}
    assert own.parameters - tied.parameters == 50257 * 1280
    assert not own.tied_groups()


def test_local_and_global_layers_of_gemma_are_types_of_their_own() -> None:
    """Under flash a local layer computes only the window's products; the global ones differ in that alone."""
    description = described(GEMMA | {"model_type": "gemma3_text", "sliding_window": 32})
    kinds = [layer.type for layer in description.layers if layer.kind == "block"]
    assert kinds[:7] == ["block.sliding"] * 5 + ["block", "block.sliding"]
    local, full = (
        next(layer for layer in description.layers if layer.type == kind)
        for kind in ("block.sliding", "block")
    )
    assert full.forward_flops - local.forward_flops == 4 * 128 * (128 - 32) * 8 * 256
    assert full.activation_bytes == local.activation_bytes


@given(st.integers(1, 64), st.integers(1, 64))
def test_activations_grow_linearly_with_the_micro_batch(one: int, other: int) -> None:
    """What two micro-batches keep is what one of both sizes keeps, apart from what samples share."""
    kept = block(LLAMA_3_8B).activation_bytes
    assert kept.at(one) + kept.at(other) == kept.at(one + other) + kept.fixed


@given(st.integers(1, 1024), st.sampled_from(["float32", "bfloat16", "float16"]), st.booleans())
def test_parameters_depend_on_neither_sequence_nor_precision(
    length: int, precision: str, eager: bool
) -> None:
    """Only the configuration decides the parameters."""
    changes = {"sequence_length": length, "precision": precision, "attention": "eager" if eager else "flash"}
    assert described(GPT2_64, **changes).parameters == 1_389_327_360


@given(st.integers(1, 512))
def test_products_grow_as_the_sequence_and_its_square(length: int) -> None:
    """f(S) = a·S + b·S², so f(2S) = 4·f(S) - 2·a·S."""
    one, two = (block(GPT2_64, sequence_length=size).forward_flops for size in (length, 2 * length))
    assert two == 4 * one - 2 * 24 * length * 1280**2


def test_torch_is_not_imported() -> None:
    """The service answers on machines without torch."""
    script = (
        "import json, sys; from tuner.estimate import describe; "
        "describe(json.loads(sys.argv[1]), sequence_length=8, precision='float32', attention='eager'); "
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script, json.dumps(GPT2_64)], check=False)
    assert done.returncode == 0


def test_the_roofline_is_launch_plus_products_plus_traffic() -> None:
    """Each term is what the data sheet and the efficiency say, by hand for one layer."""
    layer = block(BERT_48, precision="float32", attention="eager")
    device = accelerator(launch_s=1e-3, half_peak_flops=1e9)
    forward, backward = layer_times(layer, device, "float32", np.array([1, 4]))
    moved = 2 * (layer.activation_bytes.at(4) + layer.cut_bytes.at(4))
    weights = 4 * layer.parameters
    assert forward[1] == pytest.approx(
        1e-3 + (4 * layer.forward_flops + 1e9) / 5e11 + (moved + weights) / 5e11
    )
    assert backward[1] == pytest.approx(
        1e-3 + (4 * layer.backward_flops + 1e9) / 5e11 + (moved + 2 * weights) / 5e11
    )
    assert forward[0] < forward[1]


def test_layers_without_products_take_the_time_of_their_traffic() -> None:
    """Embedding and loss are bound by memory: never zero, and no start-up of matrix products."""
    embedding, *_, loss = described(LLAMA_3_8B).layers
    device = accelerator(half_peak_flops=1e15)
    for layer in (embedding, loss):
        forward, backward = layer_times(layer, device, "bfloat16", np.array([1, 8]))
        assert 0 < forward[0] < forward[1] < 1
        assert 0 < backward[0] < backward[1] < 1
    forward, _ = layer_times(loss, device, "bfloat16", np.array([2]))
    assert forward[0] == pytest.approx(16 * 2 * 128 * 128256 / 5e11)


def test_a_device_without_the_precision_computes_in_float32() -> None:
    """No peak for float16 on the sheet: the float32 peak bounds it."""
    layer = block(GPT2_64, precision="float16")
    slow, _ = layer_times(layer, accelerator(), "float16", np.array([8]))
    fast, _ = layer_times(layer, accelerator(), "bfloat16", np.array([8]))
    assert slow[0] > fast[0]


def test_estimated_timings_cover_every_type_once_in_rising_order() -> None:
    """The document names device and provenance and has a point for each size asked for."""
    description = described(GEMMA)
    timings = estimate_timings(description, accelerator(), micro_batch_sizes=[4, 1, 2, 4])
    assert [entry.type for entry in timings.types] == ["embedding", "block.sliding", "block", "head", "loss"]
    assert {entry.provenance for entry in timings.types} == {"estimated"}
    assert all([p.micro_batch_size for p in entry.points] == [1, 2, 4] for entry in timings.types)
    assert (timings.accelerator, timings.precision, timings.sequence_length) == ("test", "bfloat16", 128)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"model_type": "t5", "is_encoder_decoder": True}, "encoder-decoder"),
        ({"model_type": "bart"}, "encoder-decoder"),
        ({"model_type": "mixtral"}, "mixture of experts"),
        ({"model_type": "qwen2", "num_experts": 60}, "mixture of experts"),
        ({"model_type": "ernie4_5_moe"}, "mixture of experts"),
        ({"model_type": "llama", "moe_num_experts": 64}, "mixture of experts"),
        ({"model_type": "gemma3", "text_config": {}}, "multimodal.*text_config"),
        ({"model_type": "llama", "vision_config": {}}, "multimodal"),
        ({"model_type": "qwen9", "text_config": {"model_type": "qwen3"}}, "pass its text_config"),
        ({"model_type": "llama", "auto_map": {"AutoModel": "x.Y"}}, "auto_map"),
        ({"model_type": "gemma4_text"}, r"none of the known families.*gemma3_text\?"),
        ({"model_type": "x" * 10_000}, "none of the known families"),
        ({}, "no model_type"),
        ({"model_type": 3}, "no model_type"),
        (BERT_48 | {"is_decoder": True}, "is_decoder"),
        (GPT2_64 | {"add_cross_attention": True}, "add_cross_attention"),
        (GPT2_64 | {"reorder_and_upcast_attn": True}, "reorder_and_upcast_attn"),
        (
            GEMMA | {"model_type": "gemma3_text", "use_bidirectional_attention": True},
            "use_bidirectional_attention",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_not_modelled_is_refused_saying_why(config: dict[str, Any], reason: str) -> None:
    """The message names the reason and a way on, and stays short."""
    with pytest.raises(UnsupportedModelError, match=reason) as refusal:
        described(config)
    assert len(str(refusal.value)) < 500


def test_a_vision_config_of_null_says_that_there_is_none() -> None:
    """Configurations saved from a part of a multimodal model have its keys, and nothing in them."""
    assert described(GEMMA | {"vision_config": None, "image_token_id": None}) == described(GEMMA)


@pytest.mark.parametrize("value", [[], "llama", None, 7])
def test_what_is_no_object_is_no_configuration(value: Any) -> None:
    """A list, a word or a number is refused as not being a config.json."""
    with pytest.raises(UnsupportedModelError, match=r"not a config\.json"):
        described(value)


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_size": -1},
        {"hidden_size": 0},
        {"hidden_size": 4096.5},
        {"hidden_size": "4096"},
        {"hidden_size": float("nan")},
        {"hidden_size": 10**30},
        pytest.param({"hidden_size": 10**5000}, id="5,000 digits"),
        {"hidden_size": True},
        {"hidden_size": None},
        {"hidden_size": [4096]},
        {"hidden_size": 4097},
        {"num_hidden_layers": 10**6},
        {"num_hidden_layers": 0},
        {"vocab_size": 10**30},
        {"num_attention_heads": 33},
        {"num_key_value_heads": 5},
        {"num_key_value_heads": 64},
        {"head_dim": 65},
        {"attention_dropout": 1.0},
        {"attention_dropout": -0.1},
        {"attention_dropout": float("nan")},
        {"tie_word_embeddings": "yes"},
        {"hidden_act": "nonsense"},
        {"hidden_act": {}},
    ],
    ids=quote,
)
def test_nonsense_is_refused_naming_the_key_and_the_bounds(change: dict[str, Any]) -> None:
    """Negative, zero, NaN, text, 10^30 and heads that do not divide give one clear error."""
    with pytest.raises(UnsupportedModelError, match=next(iter(change))) as refusal:
        described(LLAMA_7B | change)
    assert len(str(refusal.value)) < 300


def test_a_model_beyond_all_bounds_is_refused() -> None:
    """Sizes that are each allowed but multiply to more than a document can hold give one sentence."""
    with pytest.raises(UnsupportedModelError, match="no model that can be planned"):
        described(
            LLAMA_7B | {"hidden_size": 9_999_360, "intermediate_size": 9_999_999},
            sequence_length=10_000,
        )


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (0, "from 1"),
        (-5, "from 1"),
        (10**30, "from 1"),
        pytest.param(10**5000, "from 1", id="5,000 digits"),
        (2.5, "whole number"),
        (True, "whole number"),
        (2048, "learned positions for 1,024"),
    ],
)
def test_a_sequence_length_out_of_bounds_is_refused(length: Any, words: str) -> None:
    """So is one longer than the learned positions, saying how long it may be."""
    with pytest.raises(UnsupportedModelError, match=words):
        described(GPT2_64, sequence_length=length)


def test_missing_keys_have_the_defaults_of_the_family_and_others_are_ignored() -> None:
    """Beyond number and width of layers; keys of training or generation change nothing."""
    bare = described(LLAMA_7B)
    assert bare.layers[1].shape["intermediate_size"] == 11008
    noise = {"torch_dtype": "bfloat16", "rope_scaling": None, "use_cache": False, "num_key_value_heads": None}
    assert described(LLAMA_7B | noise) == bare


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"model_type": "llama"}, ["number of layers (num_hidden_layers or n_layer", "hidden size (hidden_"]),
        ({"model_type": "gpt2", "n_layer": 2}, ["its hidden size (hidden_size or n_embd or d_model)"]),
        ({"model_type": "bert", "hidden_size": 64}, ["its number of layers (num_hidden_layers or"]),
    ],
    ids=str,
)
def test_sizes_that_decide_the_model_are_not_guessed(config: dict[str, Any], told: list[str]) -> None:
    """A configuration without them is refused naming them, rather than planned as the base model."""
    with pytest.raises(UnsupportedModelError) as refusal:
        described(config)
    for words in [*told, "pass the whole config.json"]:
        assert words in str(refusal.value)


def test_both_spellings_of_gpt2_sizes_are_read() -> None:
    """Configurations say n_embd or hidden_size."""
    spelt = {"hidden_size": 1280, "num_hidden_layers": 64, "num_attention_heads": 20}
    assert described({"model_type": "gpt2", "tie_word_embeddings": False} | spelt) == described(GPT2_64)
