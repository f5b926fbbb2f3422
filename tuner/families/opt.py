"""OPT: learned positions, word vectors that may be narrower than the layers, norms before or after a half."""

from tuner.families.activation import KNOWN, activate
from tuner.families.architecture import Architecture
from tuner.families.attention import Heads, attend
from tuner.families.grouping import read_layers, read_width
from tuner.families.reading import ConfigReader
from tuner.families.tape import Tape, Values

POSITION_OFFSET = 2
"""Rows that the table of positions has beyond the positions."""


def read(config: ConfigReader) -> Architecture:
    """Read a configuration of model_type opt."""
    model = _Opt(config)
    tied = config.flag("tie_word_embeddings", default=True)
    return Architecture(
        family="opt",
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
        tied_parameters=model.words * model.narrow if tied else 0,
        positions=model.positions,
    )


class _Opt:
    def __init__(self, config: ConfigReader) -> None:
        self.width = read_width(config)
        self.narrow = config.optional_count("word_embed_proj_dim", default=None) or self.width
        self.inner = config.count("ffn_dim", default=3072)
        self.words = config.count("vocab_size", default=50272)
        self.positions = config.count("max_position_embeddings", default=2048)
        self.function = config.choice("activation_function", default="relu", among=KNOWN)
        self.dropout = config.probability("dropout", default=0.1)
        self.before = config.flag("do_layer_norm_before", default=True)
        self.last_norm = self.before and not config.flag("_remove_final_layer_norm", default=False)
        self.bias = config.flag("enable_bias", default=True)
        self.affine = config.flag("layer_norm_elementwise_affine", default=True)
        heads = config.count("num_attention_heads", default=12)
        self.attention = Heads(
            heads=heads,
            kv_heads=heads,
            head_dim=config.divides("num_attention_heads", heads, whole="hidden_size", total=self.width),
            dropout=config.probability("attention_dropout", default=0.0),
        )

    def embed(self, tape: Tape) -> None:
        tokens = tape.embed(self.words, self.narrow)
        if self.narrow != self.width:
            tokens = tape.linear(tokens, self.width, bias=False)
        tape.add(tokens, tape.embed(self.positions + POSITION_OFFSET, self.width))

    def block(self, tape: Tape, x: Values, _: str) -> None:
        for half in (self._attend, self._mix):
            start = tape.layer_norm(x, affine=self.affine) if self.before else x
            x = tape.add(tape.dropout(half(tape, start), self.dropout), x)
            x = x if self.before else tape.layer_norm(x, affine=self.affine)

    def head(self, tape: Tape, x: Values) -> None:
        if self.last_norm:
            x = tape.layer_norm(x, affine=self.affine)
        if self.narrow != self.width:
            x = tape.linear(x, self.narrow, bias=False)
        tape.score(x, self.words, bias=False)

    def _attend(self, tape: Tape, x: Values) -> Values:
        query, key, value = (tape.linear(x, self.width, bias=self.bias) for _ in range(3))
        scaled = tape.make(query.width)
        attended = attend(tape, self.attention, query=scaled, key=key, value=value)
        return tape.linear(attended, self.width, bias=self.bias)

    def _mix(self, tape: Tape, x: Values) -> Values:
        wide = activate(tape, tape.linear(x, self.inner, bias=self.bias), self.function)
        return tape.linear(wide, self.width, bias=self.bias)
