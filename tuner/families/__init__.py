"""Which model families are known, and who reads their configurations?"""

from collections.abc import Callable

from tuner.families import bert, gemma, gpt2, gpt_neox, llama, mistral, opt, phi3, qwen
from tuner.families.architecture import Architecture
from tuner.families.reading import ConfigReader

FAMILIES: dict[str, Callable[[ConfigReader], Architecture]] = {
    "bert": bert.read,
    "gemma": gemma.read_gemma,
    "gemma2": gemma.read_gemma2,
    "gemma3_text": gemma.read_gemma3,
    "gpt2": gpt2.read,
    "gpt_neox": gpt_neox.read,
    "llama": llama.read,
    "mistral": mistral.read,
    "opt": opt.read,
    "phi3": phi3.read,
    "qwen2": qwen.read_qwen2,
    "qwen3": qwen.read_qwen3,
}
"""The reader of each `model_type`."""
