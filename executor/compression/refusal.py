"""With what can a compression of gradients not be had?"""

from executor.errors import ConfigurationError
from tuner.compression import SCATTERED, Compression
from tuner.configuration import Configuration
from tuner.schedules.generators import find_recipe


def refuse_compression(compression: Compression, configuration: Configuration, *, sharding: str) -> None:
    """Raises ConfigurationError for an asynchronous schedule, and for codes no shard can sum."""
    if compression.name == "none":
        return
    if not find_recipe(configuration.schedule).synchronous:
        raise ConfigurationError(
            f"{configuration.schedule} updates its stages at different times, where {compression} is "
            "not defined: choose a synchronous schedule, or no compression"
        )
    if sharding != "none" and compression.name not in SCATTERED:
        raise ConfigurationError(
            "a sharded optimizer needs the sum of its own pieces alone, which a reduce-scatter makes of "
            f"gradients and not of the codes of {compression}: choose optimizer_sharding none, or fp16 or "
            "bf16"
        )
