"""BERT with its pre-training heads: learned positions and segments, layer norms after each half, two
heads.
"""

from tuner.families.activation import KNOWN, activate
from tuner.families.architecture import Architecture
from tuner.families.attention import Heads, attend
from tuner.families.grouping import read_layers
from tuner.families.reading import ConfigReader
from tuner.families.tape import Tape, Values


def read(config: ConfigReader) -> Architecture:
    """Read a configuration of model_type bert; the output bias is one parameter, shared by decoder and
    head.
    """
    for name in ("is_decoder", "add_cross_attention"):
        config.refuse(
            name, because="BERT as a decoder is not described; use a decoder family or a measured profile"
        )
    width = config.count("hidden_size", default=768)
    heads = config.count("num_attention_heads", default=12)
    layers = read_layers(config, default=12)
    inner = config.count("intermediate_size", default=3072)
    words = config.count("vocab_size", default=30522)
    positions = config.count("max_position_embeddings", default=512)
    segments = config.count("type_vocab_size", default=2)
    function = config.choice("hidden_act", default="gelu", among=KNOWN)
    dropout = config.probability("hidden_dropout_prob", default=0.1)
    tied = config.flag("tie_word_embeddings", default=True)
    shape = Heads(
        heads=heads,
        kv_heads=heads,
        head_dim=config.divides("num_attention_heads", heads, whole="hidden_size", total=width),
        dropout=config.probability("attention_probs_dropout_prob", default=0.1),
        upcast=False,
        causal=False,
    )

    def write_embedding(tape: Tape) -> None:
        total = tape.add(tape.embed(words, width), tape.embed(segments, width, shared=True))
        tape.weight(positions, width)  # its indices are a buffer of the model
        tape.dropout(tape.layer_norm(tape.add(total, total)), dropout)

    def write_block(tape: Tape, x: Values, _: str) -> None:
        query, key, value = (tape.linear(x, width) for _ in range(3))
        attended = attend(tape, shape, query=query, key=key, value=value)
        x = tape.layer_norm(tape.add(tape.dropout(tape.linear(attended, width), dropout), x))
        wide = activate(tape, tape.linear(x, inner), function)
        tape.layer_norm(tape.add(tape.dropout(tape.linear(wide, width), dropout), x))

    def write_head(tape: Tape, x: Values) -> None:
        transformed = tape.layer_norm(activate(tape, tape.linear(x, width), function))
        tape.score(transformed, words, bias=True)
        pooled = tape.linear_first(x, width)
        tape.keep(pooled)
        tape.linear_first(pooled, 2)

    return Architecture(
        family="bert",
        hidden_size=width,
        heads=heads,
        kv_heads=heads,
        intermediate_size=inner,
        vocabulary_size=words,
        block_types=("block",) * layers,
        write_embedding=write_embedding,
        write_block=write_block,
        write_head=write_head,
        dropout=dropout,
        tied_parameters=words * width if tied else 0,
        positions=positions,
        mask_crosses=True,
    )
