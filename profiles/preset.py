"""Which well-known model is meant by a short name, and how is it trained by default?"""

from typing import Annotated, Any, Literal

from pydantic import Field

from profiles.document import Attention, Document, Name, PositiveCount, Precision


class ModelPreset(Document):
    """A model by name: its published `config.json` and what that file leaves open."""

    kind_name = "model preset"

    name: Name
    description: Annotated[str, Field(max_length=2_000)] = ""
    config: Annotated[dict[str, Any], Field(min_length=1)]
    """The configuration as `transformers` reads it, `model_type` included."""
    sequence_length: PositiveCount
    """Tokens of a sample in the model's own training."""
    precision: Precision = "bfloat16"
    attention: Attention = "flash"
    partition: Literal["balanced", "even"] = "balanced"
    """How its layers are cut into stages by default: `even` where published experiments did so."""
    source: Annotated[str, Field(min_length=1, max_length=2_000)]
    """Who published the sizes."""
