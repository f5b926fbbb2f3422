"""Which model families are known, and who reads their configurations?"""

from collections.abc import Callable

from tuner.families import bert, gpt2, llama
from tuner.families.architecture import Architecture
from tuner.families.reading import ConfigReader

FAMILIES: dict[str, Callable[[ConfigReader], Architecture]] = {
    "bert": bert.read,
    "gpt2": gpt2.read,
    "llama": llama.read,
}
"""The reader of each `model_type`."""
