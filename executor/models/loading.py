"""What does every process load that trains a model, and that takes a second? Ranks are forked with it."""

from typing import Any


def loaded_for(model: Any) -> tuple[str, ...]:
    """Modules: for the first optimizer, and for layers of transformers, which a factory can do without."""
    of_factory = isinstance(model, str) and ":" in model
    return ("torch._dynamo",) if of_factory else ("torch._dynamo", "executor.models.layered")
