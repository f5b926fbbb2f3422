"""What do eager and fused attention compute and keep?"""

from dataclasses import dataclass

from tuner.families.tape import FLOAT32, MASK, Tape, Values


@dataclass(frozen=True)
class Heads:
    """The shape of an attention layer and how its scores are treated."""

    heads: int
    kv_heads: int
    head_dim: int
    dropout: float = 0.0
    upcast: bool = True
    """Whether the softmax is taken in float32 and cast back."""
    softcap: bool = False
    """Whether scores pass a tanh."""
    window: int | None = None
    """Keys that a query sees at most."""
    causal: bool = True
    heads_first: bool = False
    """Whether q arrives as [B, heads, S, d] in memory, so that the fused output must be copied back."""

    @property
    def query_width(self) -> int:
        """Elements of all query heads at one position."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Elements of all key heads, or of all value heads, at one position."""
        return self.kv_heads * self.head_dim


def attend(tape: Tape, heads: Heads, *, query: Values, key: Values, value: Values) -> Values:
    """softmax(q·kᵀ)·v: 4·S·K·heads·d FLOPs, K keys of a query: all S, under flash at most the window.

    The causal half is not taken off, as in the FLOP counts that utilisation is usually given in.
    """
    if tape.attention == "flash":
        return _flash(tape, heads, query=query, key=key, value=value)
    return _eager(tape, heads)


def rotary_tables(tape: Tape, width: int) -> None:
    """The cos and sin [1, S, width] that all samples share; the rotation of q and k keeps them."""
    for _ in range(2):
        tape.keep(tape.make_shared(tape.sequence_length * width))


def _flash(tape: Tape, heads: Heads, *, query: Values, key: Values, value: Values) -> Values:
    """Keeps q, k, v, the output and the float32 log-sum-exp of each row."""
    _products(tape, heads, keys=min(tape.sequence_length, heads.window or tape.sequence_length))
    out = tape.make(heads.query_width)
    tape.keep(query, key, value, out, tape.make(heads.heads, FLOAT32))
    return tape.make(heads.query_width) if heads.heads_first else out


def _eager(tape: Tape, heads: Heads) -> Values:
    """Keeps contiguous q, k and v of all query heads, and the S x S matrices of softmax, dropout and tanh."""
    scores = heads.heads * tape.sequence_length
    _products(tape, heads, keys=tape.sequence_length)
    tape.keep(*(tape.make(heads.query_width) for _ in range(3)))
    if heads.softcap:
        tape.keep(tape.make(scores))
    upcast = heads.upcast and tape.itemsize < FLOAT32
    probabilities = tape.make(scores, FLOAT32 if upcast else None)
    tape.keep(probabilities)
    if upcast:
        probabilities = tape.make(scores)
    if heads.dropout:
        tape.keep(tape.make(scores, MASK))
        probabilities = tape.make(scores)
    tape.keep(probabilities)
    if heads.causal:
        tape.mask_bytes = tape.sequence_length**2 * tape.itemsize
    return tape.make(heads.query_width)


def _products(tape: Tape, heads: Heads, *, keys: int) -> None:
    tape.multiply(inner=keys, outer=2 * heads.query_width)
