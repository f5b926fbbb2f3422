"""GPT-NeoX and Pythia: a part of each head rotated, attention and MLP side by side on one residual."""

from tuner.families.activation import KNOWN, activate
from tuner.families.architecture import Architecture
from tuner.families.attention import Heads, attend, rotary_tables
from tuner.families.grouping import check_rotated, read_layers, read_width
from tuner.families.reading import ConfigReader
from tuner.families.tape import Tape, Values


def read(config: ConfigReader) -> Architecture:
    """Read a configuration of model_type gpt_neox."""
    model = _GptNeoX(config)
    tied = config.flag("tie_word_embeddings", default=False)
    return Architecture(
        family="gpt_neox",
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
    )


class _GptNeoX:
    def __init__(self, config: ConfigReader) -> None:
        self.width = read_width(config)
        self.inner = config.count("intermediate_size", default=24576)
        self.words = config.count("vocab_size", default=50432)
        self.function = config.choice("hidden_act", default="gelu", among=KNOWN)
        self.bias = config.flag("attention_bias", default=True)
        self.dropout = config.probability("hidden_dropout", default=0.0)
        self.parallel = config.flag("use_parallel_residual", default=True)
        heads = config.count("num_attention_heads", default=64)
        self.attention = Heads(
            heads=heads,
            kv_heads=heads,
            head_dim=config.divides("num_attention_heads", heads, whole="hidden_size", total=self.width),
            dropout=config.probability("attention_dropout", default=0.0),
            heads_first=True,
        )
        share = config.within("rope_parameters", "rope_scaling").fraction(
            "partial_rotary_factor", default=config.fraction("rotary_pct", default=0.25)
        )
        self.rotary_width = int(self.attention.head_dim * share)
        check_rotated(self.rotary_width)

    def embed(self, tape: Tape) -> None:
        tape.dropout(tape.embed(self.words, self.width), self.dropout)

    def block(self, tape: Tape, x: Values, _: str) -> None:
        attended = self._attend(tape, x)
        residual = x if self.parallel else tape.add(attended, x)
        wide = activate(tape, tape.linear(tape.layer_norm(residual), self.inner), self.function)
        tape.add(tape.dropout(tape.linear(wide, self.width), self.dropout), residual)

    def head(self, tape: Tape, x: Values) -> None:
        tape.score(tape.layer_norm(x), self.words, bias=False)

    def _attend(self, tape: Tape, x: Values) -> Values:
        fused = tape.linear(tape.layer_norm(x), 3 * self.width, bias=self.bias)
        value = tape.split(fused, [self.width])[0]
        rotary_tables(tape, self.rotary_width)
        query, key = tape.make(self.width), tape.make(self.width)
        attended = attend(tape, self.attention, query=query, key=key, value=value)
        return tape.dropout(tape.linear(attended, self.width, bias=self.bias), self.dropout)
