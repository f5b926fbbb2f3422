"""What do the activation functions of transformer layers keep?"""

from tuner.families.tape import Tape, Values

KEPT_INPUTS = {
    "gelu": 1,
    "gelu_pytorch_tanh": 1,
    "silu": 1,
    "swish": 1,
    "gelu_new": 4,
    "gelu_fast": 4,
}
"""Tensors as wide as the input, the input among them, that the function keeps.

`gelu_new` is written out as separate operations: it keeps x, tanh(...), x/2 and 1 + tanh(...).
"""
KEEP_RESULT = frozenset({"relu", "tanh", "sigmoid"})
"""Functions whose gradient needs their result instead of their input."""

KNOWN = frozenset(KEPT_INPUTS) | KEEP_RESULT


def activate(tape: Tape, x: Values, name: str) -> Values:
    """Apply the activation function `name`, one of KNOWN, element by element."""
    if name in KEEP_RESULT:
        result = tape.make(x.width)
        tape.keep(result)
        return result
    tape.keep(x, *(tape.make(x.width) for _ in range(KEPT_INPUTS[name] - 1)))
    return tape.make(x.width)
