"""GPT-NeoX and Pythia: a part of each head rotated, attention and MLP side by side on one residual."""

from tuner.families.activation import KNOWN, activate
from tuner.families.architecture import Architecture
from tuner.families.attention import Heads, attend, rotary_tables
from tuner.families.grouping import read_layers
from tuner.families.reading import ConfigReader
from tuner.families.tape import Tape, Values


def read(config: ConfigReader) -> Architecture:
    """Read a configuration of model_type gpt_neox."""
    width = config.count("hidden_size", default=6144)
    heads = config.count("num_attention_heads", default=64)
    inner = config.count("intermediate_size", default=24576)
    words = config.count("vocab_size", default=50432)
    function = config.choice("hidden_act", default="gelu", among=KNOWN)
    bias = config.flag("attention_bias", default=True)
    dropout = config.probability("hidden_dropout", default=0.0)
    parallel = config.flag("use_parallel_residual", default=True)
    head_dim = config.divides("num_attention_heads", heads, whole="hidden_size", total=width)
    rotated = config.within("rope_parameters", "rope_scaling").fraction(
        "partial_rotary_factor", default=config.fraction("rotary_pct", default=0.25)
    )
    shape = Heads(
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
        dropout=config.probability("attention_dropout", default=0.0),
        heads_first=True,
    )

    def write_embedding(tape: Tape) -> None:
        tape.dropout(tape.embed(words, width), dropout)

    def write_attention(tape: Tape, x: Values) -> Values:
        fused = tape.linear(tape.layer_norm(x), 3 * width, bias=bias)
        rotary_tables(tape, int(head_dim * rotated))
        value = tape.split(fused, [width])[0]
        attended = attend(tape, shape, query=tape.make(width), key=tape.make(width), value=value)
        return tape.dropout(tape.linear(attended, width, bias=bias), dropout)

    def write_block(tape: Tape, x: Values, _: str) -> None:
        attended = write_attention(tape, x)
        residual = x if parallel else tape.add(attended, x)
        wide = activate(tape, tape.linear(tape.layer_norm(residual), inner), function)
        tape.add(tape.dropout(tape.linear(wide, width), dropout), residual)

    def write_head(tape: Tape, x: Values) -> None:
        tape.score(tape.layer_norm(x), words, bias=False)

    return Architecture(
        family="gpt_neox",
        hidden_size=width,
        heads=heads,
        kv_heads=heads,
        intermediate_size=inner,
        vocabulary_size=words,
        block_types=("block",) * read_layers(config, default=44),
        write_embedding=write_embedding,
        write_block=write_block,
        write_head=write_head,
        dropout=dropout,
        tied_parameters=words * width if config.flag("tie_word_embeddings", default=False) else 0,
    )
