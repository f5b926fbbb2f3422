"""What do the operations of a layer compute and keep, counted as they are written down?

A tape is told the operations of one layer in the order in which the model runs them, and counts
parameters, FLOPs and what autograd saves: each saved storage once, whoever saves it. Counts are those
of one sample; what the whole batch shares is told apart. One method is one operation of PyTorch and
saves what that saves on a GPU.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from profiles.document import Attention
from profiles.model import Bytes

FLOAT32 = 4
MASK = 1
INDEX = 8


@dataclass(frozen=True, eq=False)
class Values:
    """One storage of `width` elements at each position; two are equal only if they are the same one."""

    width: int
    nbytes: int
    shared: bool = False
    """Whether the samples of a batch share it."""
    whole: "Values | None" = None
    """The storage that these values are a view of, which is saved as a whole."""


class Tape:
    """Counts one layer; read the totals when all its operations are written down."""

    def __init__(self, *, sequence_length: int, itemsize: int, attention: Attention) -> None:
        self.sequence_length = sequence_length
        self.itemsize = itemsize
        self.attention = attention
        self.parameters = 0
        self.forward_flops = 0
        self.mask_bytes = 0
        self.arriving = 0
        """Bytes of the results that parameters take part in: so large are the gradients that arrive there."""
        self._kept: dict[Values, None] = {}
        self._kept_bytes = 0
        self._made: list[tuple[int, int]] = []
        self._largest_weight = 0

    @property
    def activation_bytes(self) -> Bytes:
        """What the backward needs: every kept storage once."""
        return Bytes(
            per_sample=sum(values.nbytes for values in self._kept if not values.shared),
            fixed=sum(values.nbytes for values in self._kept if values.shared),
        )

    def transient_bytes(self, hidden_size: int) -> Bytes:
        """What exists only while the layer runs, by rule.

        Per sample: the gradient of the hidden states that waits on the residual path, and at the worst
        tensor three of its size (gradient in, gradient out, an operand) less what operations after it
        kept, which the backward has released by then. Shared: the gradient of the largest weight before
        it is accumulated, and masks.
        """
        hidden = self.sequence_length * hidden_size * self.itemsize
        worst = max(3 * nbytes - (self._kept_bytes - kept) for nbytes, kept in self._made)
        weight = self._largest_weight * self.itemsize
        return Bytes(per_sample=hidden + max(0, worst), fixed=weight + self.mask_bytes)

    def make(self, width: int, itemsize: int | None = None) -> Values:
        """A new tensor [B, S, width]."""
        nbytes = self.sequence_length * width * (itemsize or self.itemsize)
        self._made.append((nbytes, self._kept_bytes))
        return Values(width, nbytes)

    def make_unseen(self, width: int) -> Values:
        """A new tensor as wide as the vocabulary, whose working set the loss counts."""
        return Values(width, self.sequence_length * width * self.itemsize)

    def make_shared(self, elements: int, itemsize: int | None = None) -> Values:
        """A new tensor that does not depend on the batch."""
        return Values(0, elements * (itemsize or self.itemsize), shared=True)

    def keep(self, *saved: Values) -> None:
        """Save tensors for the backward."""
        for values in saved:
            storage = values.whole or values
            if storage not in self._kept:
                self._kept[storage] = None
                self._kept_bytes += storage.nbytes

    def weight(self, *shape: int) -> None:
        """A parameter of the layer."""
        elements = 1
        for size in shape:
            elements *= size
        self.parameters += elements
        self._largest_weight = max(self._largest_weight, elements)

    def multiply(self, *, inner: int, outer: int) -> None:
        """A matrix product [S, inner] x [inner, outer] of each sample: 2 * S * inner * outer FLOPs."""
        self.forward_flops += 2 * self.sequence_length * inner * outer

    def embed(self, rows: int, width: int, *, shared: bool = False) -> Values:
        """A look-up: keeps an index for each position, `shared` where all samples have the same ones; no
        FLOPs.
        """
        self.weight(rows, width)
        self.keep(Values(1, self.sequence_length * INDEX, shared=shared))
        return self.make(width)

    def linear(self, x: Values, width: int, *, bias: bool = True) -> Values:
        """A linear layer y = x·Wᵀ + b: keeps x."""
        self.weight(x.width, width)
        if bias:
            self.weight(width)
        self.keep(x)
        self.multiply(inner=x.width, outer=width)
        return self._arrives(self.make(width))

    def linear_first(self, x: Values, width: int) -> Values:
        """The same at the first position only, as a pooler does."""
        self.weight(x.width, width)
        self.weight(width)
        self.keep(x)
        self.forward_flops += 2 * x.width * width
        return self._arrives(Values(width, width * self.itemsize))

    def score(self, x: Values, words: int, *, bias: bool) -> None:
        """The projection to the vocabulary: keeps x; its result is counted in the loss."""
        self.weight(x.width, words)
        if bias:
            self.weight(words)
        self.keep(x)
        self.multiply(inner=x.width, outer=words)
        self._arrives(self.make_unseen(words))

    def layer_norm(self, x: Values, *, bias: bool = True, affine: bool = True) -> Values:
        """Keeps x and a float32 mean and reciprocal deviation of each row."""
        if affine:
            self.weight(x.width)
        if affine and bias:
            self.weight(x.width)
        self.keep(x, self.make(2, FLOAT32))
        normalized = self.make(x.width)
        return self._arrives(normalized) if affine else normalized

    def rms_norm(self, x: Values, *, rows: int = 1) -> Values:
        """Norm w · (x / rms(x)) in float32, cast back before w: keeps both, `rows` reciprocal roots and the
        float32 x.
        """
        self.weight(x.width // rows)
        self._keep_float32(x, rows)
        self.make(x.width, FLOAT32)
        normalized = self.make(x.width)
        self.keep(normalized)
        return self._arrives(self.make(x.width))

    def shifted_rms_norm(self, x: Values, *, rows: int = 1) -> Values:
        """(1 + w) · (x / rms(x)), all in float32 and cast at the end: keeps also 1 + w."""
        self.weight(x.width // rows)
        self._keep_float32(x, rows)
        normalized = self.make(x.width, FLOAT32)
        self.keep(normalized, self.make_shared(x.width // rows, FLOAT32))
        self._arrives(self.make(x.width, FLOAT32))
        return self.make(x.width)

    def dropout(self, x: Values, probability: float) -> Values:
        """Keeps a mask of one byte an element; nothing at probability 0."""
        if probability == 0:
            return x
        self.keep(self.make(x.width, MASK))
        return self.make(x.width)

    def add(self, x: Values, y: Values) -> Values:
        """Sum x + y: keeps nothing."""
        return self.make(max(x.width, y.width))

    def product(self, x: Values, y: Values) -> Values:
        """Product x · y by element: keeps both."""
        self.keep(x, y)
        return self.make(x.width)

    def split(self, x: Values, widths: Sequence[int]) -> list[Values]:
        """Views of x."""
        return [Values(width, x.nbytes, whole=x) for width in widths]

    def _arrives(self, result: Values) -> Values:
        self.arriving += result.nbytes
        return result

    def _keep_float32(self, x: Values, rows: int) -> None:
        upcast = x if self.itemsize == FLOAT32 else self.make(x.width, FLOAT32)
        self.keep(upcast, self.make(rows, FLOAT32))
