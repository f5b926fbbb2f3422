"""The decoder that Llama, Mistral, Qwen, Gemma and Phi-3 share: rotary positions, grouped keys, a gated
MLP.

What tells them apart are biases, the norms and where they stand, windows and soft caps, fused
projections.
"""

from dataclasses import dataclass, replace

from tuner.families.activation import activate
from tuner.families.architecture import Architecture
from tuner.families.attention import Heads, attend, rotary_tables
from tuner.families.tape import Tape, Values


@dataclass(frozen=True)
class Decoder:
    """A gated, rotary, RMS-normalized decoder."""

    family: str
    hidden_size: int
    intermediate_size: int
    vocabulary_size: int
    block_types: tuple[str, ...]
    attention: Heads
    activation: str
    tied: bool
    window: int | None = None
    """The window of the sliding layers."""
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    rotary_width: int | None = None
    """Elements of each head that are rotated; None for all."""
    shifted_norms: bool = False
    """Gemma's norm, w counted from 1 and all in float32."""
    query_key_norms: bool = False
    norms_after: bool = False
    """Whether attention and MLP are normalized again before they join the residual."""
    fused: bool = False
    """Whether q, k, v and the MLP's gate and up are one projection each."""
    dropout: float = 0.0
    capped_scores: bool = False
    """Whether the scores over the vocabulary pass a tanh."""

    def architecture(self) -> Architecture:
        """The architecture with the operations of this decoder."""
        return Architecture(
            family=self.family,
            hidden_size=self.hidden_size,
            heads=self.attention.heads,
            kv_heads=self.attention.kv_heads,
            intermediate_size=self.intermediate_size,
            vocabulary_size=self.vocabulary_size,
            block_types=self.block_types,
            write_embedding=self._embed,
            write_block=self._block,
            write_head=self._head,
            dropout=self.dropout,
            tied_parameters=self.vocabulary_size * self.hidden_size if self.tied else 0,
        )

    def _embed(self, tape: Tape) -> None:
        tape.embed(self.vocabulary_size, self.hidden_size)

    def _block(self, tape: Tape, x: Values, kind: str) -> None:
        attended = self._attend(tape, self._normalize(tape, x), kind)
        if self.norms_after:
            attended = self._normalize(tape, attended)
        x = tape.add(tape.dropout(attended, self.dropout), x)
        mixed = self._mix(tape, self._normalize(tape, x))
        if self.norms_after:
            mixed = self._normalize(tape, mixed)
        tape.add(tape.dropout(mixed, self.dropout), x)

    def _head(self, tape: Tape, x: Values) -> None:
        tape.score(self._normalize(tape, x), self.vocabulary_size, bias=False)
        if self.capped_scores:
            tape.keep(tape.make_unseen(self.vocabulary_size))

    def _attend(self, tape: Tape, x: Values, kind: str) -> Values:
        shape = self.attention_of(kind)
        query, key, value = self._project(tape, x, shape)
        if self.query_key_norms:
            query = self._normalize(tape, query, rows=shape.heads)
            key = self._normalize(tape, key, rows=shape.kv_heads)
        rotary_tables(tape, self.rotary_width or shape.head_dim)
        query, key = tape.make(query.width), tape.make(key.width)
        attended = attend(tape, shape, query=query, key=key, value=value)
        return tape.linear(attended, self.hidden_size, bias=self.output_bias)

    def attention_of(self, kind: str) -> Heads:
        """The attention of blocks of one type: windowed in sliding ones."""
        return replace(
            self.attention, window=self.window if kind == "block.sliding" else self.attention.window
        )

    def _project(self, tape: Tape, x: Values, shape: Heads) -> list[Values]:
        widths = [shape.query_width, shape.kv_width, shape.kv_width]
        if self.fused:
            return tape.split(tape.linear(x, sum(widths), bias=self.qkv_bias), widths)
        return [tape.linear(x, width, bias=self.qkv_bias) for width in widths]

    def _mix(self, tape: Tape, x: Values) -> Values:
        width = self.intermediate_size
        if self.fused:
            gate, up = tape.split(tape.linear(x, 2 * width, bias=self.mlp_bias), [width, width])
        else:
            gate, up = (tape.linear(x, width, bias=self.mlp_bias) for _ in range(2))
        gated = tape.product(activate(tape, gate, self.activation), up)
        return tape.linear(gated, self.hidden_size, bias=self.mlp_bias)

    def _normalize(self, tape: Tape, x: Values, rows: int = 1) -> Values:
        if self.shifted_norms:
            return tape.shifted_rms_norm(x, rows=rows)
        return tape.rms_norm(x, rows=rows)
