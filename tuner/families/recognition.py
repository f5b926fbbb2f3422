"""Which family does a configuration belong to, and if none, why?"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from tuner.errors import UnsupportedModelError
from tuner.families import FAMILIES
from tuner.families.architecture import Architecture
from tuner.families.grouping import check_sizes
from tuner.families.reading import ConfigReader

EXPERT_KEYS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_intermediate_size",
               "moe_num_experts", "num_experts_per_tok")  # fmt: skip
EXPERT_TYPES = frozenset(
    {"mixtral", "dbrx", "jetmoe", "olmoe", "phimoe", "gpt_oss", "llama4_text", "qwen2_moe", "qwen3_moe"}
    | {"deepseek_v2", "deepseek_v3", "glm4_moe", "granitemoe"}
)
MODALITY_KEYS = ("vision_config", "audio_config", "speech_config", "image_token_id", "image_token_index")
MODALITY_TYPES = frozenset(
    {"gemma3", "gemma3n", "llava", "llava_next", "mllama", "llama4", "paligemma", "qwen2_vl", "qwen2_5_vl"}
    | {"idefics3", "clip", "siglip", "vit"}
)
ENCODER_DECODER_TYPES = frozenset(
    {"t5", "mt5", "umt5", "longt5", "bart", "mbart", "pegasus", "marian", "m2m_100", "whisper", "led"}
)
MOST_QUOTED = 60


def recognize(config: Mapping[str, Any]) -> Architecture:
    """Read the architecture of a parsed config.json; raises UnsupportedModelError saying why it cannot."""
    kind = check_modelled(config)
    if kind not in FAMILIES:
        raise UnsupportedModelError(
            f"the {kind[:MOST_QUOTED]!r} model is of none of the known families ({', '.join(FAMILIES)}). "
            f"Let a worker trace it, {_remedy(kind)}"
        )
    reader = ConfigReader(config)
    check_sizes(reader)
    return FAMILIES[kind](reader)


def check_modelled(config: Mapping[str, Any]) -> str:
    """The model_type of a config.json; raises UnsupportedModelError for kinds that are not modelled."""
    if not isinstance(config, Mapping):
        raise UnsupportedModelError("this is not a config.json, which is one JSON object with a model_type")
    kind = config.get("model_type")
    if not isinstance(kind, str) or not kind:
        raise UnsupportedModelError(
            "this is not the config.json of a model: it has no model_type. Pass the config.json that stands "
            "beside the weights of a Hugging Face model"
        )
    if reason := _refusal(config, kind):
        raise UnsupportedModelError(f"the {kind[:MOST_QUOTED]!r} model {reason}. You can {_remedy(kind)}")
    return kind


def _refusal(config: Mapping[str, Any], kind: str) -> str | None:
    if "auto_map" in config:
        return (
            "brings code of its own (auto_map), which is never run here; remove auto_map if the code is that "
            "of transformers"
        )
    if kind in MODALITY_TYPES or any(config.get(key) is not None for key in MODALITY_KEYS):
        return (
            "is multimodal, and only text models are described; its text part can be planned alone: pass its "
            "text_config as the config.json"
        )
    if kind in ENCODER_DECODER_TYPES or config.get("is_encoder_decoder") is True:
        return "is an encoder-decoder, which is not one pipe of layers"
    if isinstance(config.get("text_config"), Mapping):
        return (
            "holds a language model beside what is not described; that can be planned alone: pass its "
            "text_config as the config.json"
        )
    if kind in EXPERT_TYPES or "moe" in kind.lower() or any(config.get(key) for key in EXPERT_KEYS):
        return "routes tokens to experts (mixture of experts), which is not modelled"
    return None


def _remedy(kind: str) -> str:
    near = get_close_matches(kind[:MOST_QUOTED], FAMILIES, n=1, cutoff=0.75)
    closest = f" ({near[0]}?)" if near and near[0] != kind else ""
    return (
        f"give a measured profile of it, or plan a model of a known family{closest} with the same sizes: "
        "most decoders have the layers of llama."
    )
