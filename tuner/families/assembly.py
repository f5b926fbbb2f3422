"""How do the operations of an architecture become the layers of a description?"""

from profiles.document import Attention, Precision
from profiles.model import Bytes, Layer, LayerKind
from tuner.families.architecture import Architecture
from tuner.families.loss import loss_layer
from tuner.families.tape import Tape, Values

ITEMSIZES: dict[Precision, int] = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of a weight and of an activation; the float32 master weights of mixed precision are the
optimizer's.
"""


def assemble(
    architecture: Architecture, *, sequence_length: int, precision: Precision, attention: Attention
) -> tuple[Layer, ...]:
    """The layers in order; each type of block is counted once."""
    assembly = _Assembly(architecture, sequence_length, ITEMSIZES[precision], attention=attention)
    blocks = {kind: assembly.block(kind) for kind in dict.fromkeys(architecture.block_types)}
    numbered = (
        blocks[kind].model_copy(update={"name": f"layers.{index}"})
        for index, kind in enumerate(architecture.block_types)
    )
    loss = loss_layer(
        sequence_length=sequence_length, vocabulary_size=architecture.vocabulary_size, precision=precision
    )
    return (assembly.embedding(), *numbered, assembly.head(), loss)


class _Assembly:
    """Writes each layer on a tape of its own and reads it off."""

    def __init__(
        self, architecture: Architecture, sequence_length: int, itemsize: int, *, attention: Attention
    ) -> None:
        self._architecture = architecture
        self._sequence_length = sequence_length
        self._itemsize = itemsize
        self._attention = attention
        crossing = architecture.hidden_size + (1 if architecture.mask_crosses else 0)
        self._cut = sequence_length * crossing * itemsize

    def embedding(self) -> Layer:
        """Look-ups only: no matrix product, so no FLOPs, unless the embedding is projected."""
        tape = self._tape()
        self._architecture.write_embedding(tape)
        return self._layer(tape, "embedding", kind="embedding", cut=self._cut)

    def block(self, block_type: str) -> Layer:
        """One block of a type."""
        tape = self._tape()
        self._architecture.write_block(tape, self._hidden(tape), block_type)
        return self._layer(tape, block_type, kind="block", cut=self._cut)

    def head(self) -> Layer:
        """Final norm and projection; nothing is cut after it, but the logits are what would cross."""
        tape = self._tape()
        self._architecture.write_head(tape, self._hidden(tape))
        logits = self._sequence_length * self._architecture.vocabulary_size * self._itemsize
        return self._layer(tape, "head", kind="head", cut=logits)

    def _tape(self) -> Tape:
        return Tape(sequence_length=self._sequence_length, itemsize=self._itemsize, attention=self._attention)

    def _hidden(self, tape: Tape) -> Values:
        return tape.make(self._architecture.hidden_size)

    def _layer(self, tape: Tape, name: str, *, kind: LayerKind, cut: int) -> Layer:
        architecture = self._architecture
        tied = 0 if kind == "block" else architecture.tied_parameters
        return Layer(
            name=name,
            type=name,
            kind=kind,
            shape=self._shape() if kind == "block" else {},
            parameters=tape.parameters,
            active_parameters=tape.parameters,
            tied_group="embedding" if tied else None,
            tied_parameters=tied,
            forward_flops=tape.forward_flops,
            backward_flops=2 * tape.forward_flops,
            activation_bytes=tape.activation_bytes,
            transient_bytes=tape.transient_bytes(architecture.hidden_size),
            arriving_bytes=Bytes(per_sample=tape.arriving),
            cut_bytes=Bytes(per_sample=cut),
        )

    def _shape(self) -> dict[str, int | str]:
        architecture = self._architecture
        return {
            "family": architecture.family,
            "hidden_size": architecture.hidden_size,
            "heads": architecture.heads,
            "kv_heads": architecture.kv_heads,
            "intermediate_size": architecture.intermediate_size,
        }
