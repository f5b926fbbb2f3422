"""What does the cross-entropy over the vocabulary keep and need?"""

from profiles.document import Precision
from profiles.model import Bytes, Layer


def loss_layer(*, sequence_length: int, vocabulary_size: int, precision: Precision) -> Layer:
    """The loss: per position and word 12 bytes of working set in float32 and 16 in mixed precision.

    Float32 holds logits, log-softmax and the gradient of the logits, 4 bytes each. Mixed precision
    upcasts: logits 2, their float32 copy 4, log-softmax 4, its gradient 4, the gradient of the logits
    2. The log-softmax (4 bytes) is what the backward needs, so a live micro-batch keeps it; the rest
    exists only while the loss runs. The logits are counted here and not in the head. FLOPs are those of
    matrix products, so none.
    """
    scores = sequence_length * vocabulary_size
    working_set = 12 if precision == "float32" else 16
    return Layer(
        name="loss",
        type="loss",
        kind="loss",
        parameters=0,
        active_parameters=0,
        forward_flops=0,
        backward_flops=0,
        activation_bytes=Bytes(per_sample=4 * scores),
        transient_bytes=Bytes(per_sample=(working_set - 4) * scores),
        arriving_bytes=Bytes(per_sample=0),
        cut_bytes=Bytes(per_sample=0),
    )
