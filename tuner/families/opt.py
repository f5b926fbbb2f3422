"""OPT: learned positions, word vectors that may be narrower than the layers, norms before or after each
half.
"""

from tuner.families.activation import KNOWN, activate
from tuner.families.architecture import Architecture
from tuner.families.attention import Heads, attend
from tuner.families.grouping import read_layers
from tuner.families.reading import ConfigReader
from tuner.families.tape import Tape, Values

POSITION_OFFSET = 2


def read(config: ConfigReader) -> Architecture:
    """Read a configuration of model_type opt; its table of positions has two rows more than positions."""
    width = config.count("hidden_size", default=768)
    narrow = config.optional_count("word_embed_proj_dim", default=None) or width
    heads = config.count("num_attention_heads", default=12)
    inner = config.count("ffn_dim", default=3072)
    words = config.count("vocab_size", default=50272)
    positions = config.count("max_position_embeddings", default=2048)
    function = config.choice("activation_function", default="relu", among=KNOWN)
    dropout = config.probability("dropout", default=0.1)
    before = config.flag("do_layer_norm_before", default=True)
    last_norm = before and not config.flag("_remove_final_layer_norm", default=False)
    bias = config.flag("enable_bias", default=True)
    affine = config.flag("layer_norm_elementwise_affine", default=True)
    shape = Heads(
        heads=heads,
        kv_heads=heads,
        head_dim=config.divides("num_attention_heads", heads, whole="hidden_size", total=width),
        dropout=config.probability("attention_dropout", default=0.0),
    )

    def write_embedding(tape: Tape) -> None:
        tokens = tape.embed(words, narrow)
        if narrow != width:
            tokens = tape.linear(tokens, width, bias=False)
        tape.add(tokens, tape.embed(positions + POSITION_OFFSET, width))

    def write_attention(tape: Tape, x: Values) -> Values:
        query, key, value = (tape.linear(x, width, bias=bias) for _ in range(3))
        attended = attend(tape, shape, query=tape.add(query, query), key=key, value=value)
        return tape.dropout(tape.linear(attended, width, bias=bias), dropout)

    def write_mlp(tape: Tape, x: Values) -> Values:
        wide = activate(tape, tape.linear(x, inner, bias=bias), function)
        return tape.dropout(tape.linear(wide, width, bias=bias), dropout)

    def write_block(tape: Tape, x: Values, _: str) -> None:
        for write_half in (write_attention, write_mlp):
            start = tape.layer_norm(x, affine=affine) if before else x
            x = tape.add(write_half(tape, start), x)
            x = x if before else tape.layer_norm(x, affine=affine)

    def write_head(tape: Tape, x: Values) -> None:
        if last_norm:
            x = tape.layer_norm(x, affine=affine)
        if narrow != width:
            x = tape.linear(x, narrow, bias=False)
        tape.score(x, words, bias=False)

    return Architecture(
        family="opt",
        hidden_size=width,
        heads=heads,
        kv_heads=heads,
        intermediate_size=inner,
        vocabulary_size=words,
        block_types=("block",) * read_layers(config, default=12),
        write_embedding=write_embedding,
        write_block=write_block,
        write_head=write_head,
        dropout=dropout,
        tied_parameters=words * narrow if config.flag("tie_word_embeddings", default=True) else 0,
        positions=positions,
    )
