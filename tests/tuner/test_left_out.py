"""Does a plan say what of a config.json it does not go by, and what of a cluster cannot be?"""

from typing import Any

import pytest

from profiles import library
from tests.tuner.test_estimate import LLAMA_7B
from tuner.planning import answer
from tuner.request import read_request

WHOLE = LLAMA_7B | {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 4096}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, ["all weights in bfloat16"]),
        ({"architectures": ["LlamaForSequenceClassification"]}, ["LlamaForSequenceClassification"]),
        ({"max_position_embeddings": 1024}, ["2,048 tokens is longer than the 1,024 positions"]),
        ({"max_position_embeddings": 1024, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, []),
        ({"head_dim": 512}, ["heads are 512 elements wide"]),
        ({"architectures": "nonsense", "max_position_embeddings": "4k", "quantization_config": None}, []),
    ],
)
def test_what_a_plan_does_not_go_by_is_said(changes: dict[str, Any], said: list[str]) -> None:
    """Quantized weights, another head, longer sequences than positions; of a plain one there is no note."""
    asked = {"model": {"config": WHOLE | changes}, "sequence_length": 2048, "cluster": "dgx-h100",
             "devices": 8, "mini_batch_size": 64, "schedules": ["dapple"], "depth": 2}  # fmt: skip
    notes = answer(read_request(asked), library).provenance.notes
    assert len(notes) == len(said)
    assert all(words in note for words, note in zip(said, notes, strict=True))


@pytest.mark.parametrize(
    ("changes", "attention", "said"),
    [({}, "flash", 1), ({"attn_logit_softcapping": None}, "flash", 0), ({}, "eager", 0)],
)
def test_capped_scores_under_flash_are_told(changes: dict[str, Any], attention: str, said: int) -> None:
    """Gemma 2 caps its scores: what transformers runs by default keeps the S x S matrices."""
    config = WHOLE | {"model_type": "gemma2", "num_key_value_heads": 4} | changes
    asked = {"model": {"config": config}, "sequence_length": 2048, "cluster": "dgx-h100", "devices": 8,
             "attention": attention, "mini_batch_size": 64, "schedules": ["dapple"], "depth": 4}  # fmt: skip
    notes = answer(read_request(asked), library).provenance.notes
    assert len([note for note in notes if "attn_logit_softcapping" in note]) == said


@pytest.mark.parametrize(
    ("transfer", "said"),
    [
        ({"latency_s": 5e-6, "bandwidth_bytes_per_s": 400.0}, "400 bytes a second"),
        ({"latency_s": 5.0, "bandwidth_bytes_per_s": 5e10}, "latency of 5 s"),
    ],
)
def test_links_in_other_units_are_doubted(transfer: dict[str, float], said: str) -> None:
    """Gigabits under the name of bytes, microseconds under that of seconds."""
    cluster = library.load_cluster("dgx-h100").model_dump(mode="json", exclude_none=True)
    cluster["link"]["p2p"] = transfer
    asked = {"model": "gpt2-small", "cluster": {"document": cluster}, "devices": 2, "mini_batch_size": 8}
    (note,) = answer(read_request(asked), library).provenance.notes
    assert note.startswith("p2p between nodes of dgx-h100")
    assert said in note
