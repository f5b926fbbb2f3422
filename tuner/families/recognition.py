"""Which family does a configuration belong to, and if none, why?"""

from collections.abc import Mapping
from typing import Any

from tuner.errors import UnsupportedModelError
from tuner.families import FAMILIES
from tuner.families.architecture import Architecture
from tuner.families.reading import ConfigReader

REMEDY = (
    "Give a measured profile of it, let a worker trace it, or plan the closest of the families that are known here "
    f"({', '.join(sorted(FAMILIES))})."
)
EXPERT_KEYS = (
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "moe_intermediate_size",
    "num_experts_per_tok",
)
MODALITY_KEYS = (
    "vision_config",
    "audio_config",
    "image_token_id",
    "image_token_index",
    "vision_tower",
    "speech_config",
)
MOST_QUOTED = 60


def recognize(config: Mapping[str, Any]) -> Architecture:
    """Read the architecture of a parsed config.json; raises UnsupportedModelError saying why it cannot be."""
    if not isinstance(config, Mapping) or not all(isinstance(key, str) for key in config):
        raise UnsupportedModelError("this is not a config.json: it must be one JSON object with a model_type")
    kind = config.get("model_type")
    _refuse_what_is_not_modelled(config, kind)
    if not isinstance(kind, str) or not kind:
        raise UnsupportedModelError(
            "this is not the config.json of a model: it has no model_type. Pass the config.json that stands beside "
            "the weights of a Hugging Face model"
        )
    if kind not in FAMILIES:
        raise UnsupportedModelError(
            f"model_type {kind[:MOST_QUOTED]!r} is not one of the known families. {REMEDY}"
        )
    return FAMILIES[kind](ConfigReader(config))


def _refuse_what_is_not_modelled(config: Mapping[str, Any], kind: Any) -> None:
    who = f"the {kind[:MOST_QUOTED]!r} model" if isinstance(kind, str) and kind else "the model"
    if "auto_map" in config:
        raise UnsupportedModelError(
            f"{who} brings its own code (auto_map), which is never run here. Remove auto_map if the code is that of "
            f"transformers. {REMEDY}"
        )
    modality = next((key for key in MODALITY_KEYS if key in config), None)
    if modality:
        raise UnsupportedModelError(
            f"{who} is multimodal ({modality}): only text models are described. Its text part can be planned alone: "
            f"pass its text_config as the config.json. {REMEDY}"
        )
    if config.get("is_encoder_decoder") is True:
        raise UnsupportedModelError(f"{who} is an encoder-decoder, which is not one pipe of layers. {REMEDY}")
    experts = next((key for key in EXPERT_KEYS if config.get(key)), None)
    if experts:
        raise UnsupportedModelError(
            f"{who} routes tokens to experts ({experts}={str(config[experts])[:20]}), which is not modelled. {REMEDY}"
        )
