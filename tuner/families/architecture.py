"""What does a family say about a model: its sizes, and the operations of its embedding, blocks and head?"""

from collections.abc import Callable
from dataclasses import dataclass

from tuner.families.tape import Tape, Values


@dataclass(frozen=True)
class Architecture:
    """A model of one family; `write_*` put the operations of one layer on a tape."""

    family: str
    hidden_size: int
    heads: int
    kv_heads: int
    intermediate_size: int
    vocabulary_size: int
    block_types: tuple[str, ...]
    """The type of each block: "block", or "block.sliding" for local attention."""
    write_embedding: Callable[[Tape], None]
    write_block: Callable[[Tape, Values, str], None]
    write_head: Callable[[Tape, Values], None]
    dropout: float = 0.0
    tied_parameters: int = 0
    """Parameters that embedding and head share; 0 where the head has its own."""
    positions: int | None = None
    """The longest sequence with a learned position; None where positions are computed."""
    mask_crosses: bool = False
    """Whether the padding mask travels with the hidden states, B·S elements."""
