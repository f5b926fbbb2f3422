"""BERT with its pre-training heads: learned positions and segments, layer norms after each half."""

from tuner.families.activation import KNOWN, activate
from tuner.families.architecture import Architecture
from tuner.families.attention import Heads, attend
from tuner.families.grouping import read_layers, read_width
from tuner.families.reading import ConfigReader
from tuner.families.tape import Tape, Values


def read(config: ConfigReader) -> Architecture:
    """Read a configuration of model_type bert.

    The output bias is one parameter, shared by decoder and head; masked words are scored at all positions.
    """
    for name in ("is_decoder", "add_cross_attention"):
        config.refuse(name, because="BERT as a decoder is not described; give a measured profile")
    model = _Bert(config)
    tied = config.flag("tie_word_embeddings", default=True)
    return Architecture(
        family="bert",
        hidden_size=model.width,
        heads=model.attention.heads,
        kv_heads=model.attention.heads,
        intermediate_size=model.inner,
        vocabulary_size=model.words,
        block_types=("block",) * read_layers(config),
        write_embedding=model.embed,
        write_block=model.block,
        write_head=model.head,
        dropout=model.dropout,
        tied_parameters=model.words * model.width if tied else 0,
        positions=model.positions,
        mask_crosses=True,
    )


class _Bert:
    def __init__(self, config: ConfigReader) -> None:
        self.width = read_width(config)
        self.inner = config.count("intermediate_size", default=3072)
        self.words = config.count("vocab_size", default=30522)
        self.positions = config.count("max_position_embeddings", default=512)
        self.segments = config.count("type_vocab_size", default=2)
        self.function = config.choice("hidden_act", default="gelu", among=KNOWN)
        self.dropout = config.probability("hidden_dropout_prob", default=0.1)
        heads = config.count("num_attention_heads", default=12)
        self.attention = Heads(
            heads=heads,
            kv_heads=heads,
            head_dim=config.divides("num_attention_heads", heads, whole="hidden_size", total=self.width),
            dropout=config.probability("attention_probs_dropout_prob", default=0.1),
            upcast=False,
            causal=False,
        )

    def embed(self, tape: Tape) -> None:
        tokens = tape.embed(self.words, self.width)
        total = tape.add(tokens, tape.embed(self.segments, self.width, shared=True))
        tape.weight(self.positions, self.width)  # the indices of positions are a buffer of the model
        tape.dropout(tape.layer_norm(tape.add(total, total)), self.dropout)

    def block(self, tape: Tape, x: Values, _: str) -> None:
        query, key, value = (tape.linear(x, self.width) for _ in range(3))
        attended = attend(tape, self.attention, query=query, key=key, value=value)
        x = self._join(tape, tape.linear(attended, self.width), x)
        wide = activate(tape, tape.linear(x, self.inner), self.function)
        self._join(tape, tape.linear(wide, self.width), x)

    def head(self, tape: Tape, x: Values) -> None:
        transformed = tape.layer_norm(activate(tape, tape.linear(x, self.width), self.function))
        tape.score(transformed, self.words, bias=True)
        pooled = tape.linear_first(x, self.width)
        tape.keep(pooled)
        tape.linear_first(pooled, 2)

    def _join(self, tape: Tape, change: Values, x: Values) -> Values:
        return tape.layer_norm(tape.add(tape.dropout(change, self.dropout), x))
