"""GPT-2: learned positions, one projection for q, k and v, a plain MLP, layer norms before each half."""

from tuner.families.activation import KNOWN, activate
from tuner.families.architecture import Architecture
from tuner.families.attention import Heads, attend
from tuner.families.grouping import read_layers
from tuner.families.reading import ConfigReader
from tuner.families.tape import Tape, Values


def read(config: ConfigReader) -> Architecture:
    """Read a configuration of model_type gpt2."""
    config.refuse("add_cross_attention", because="layers that read an encoder are not described")
    config.refuse(
        "reorder_and_upcast_attn", because="its float32 attention is not described; set it to false"
    )
    width = config.count("n_embd", "hidden_size", default=768)
    heads = config.count("n_head", "num_attention_heads", default=12)
    layers = read_layers(config, "n_layer", "num_hidden_layers", default=12)
    words = config.count("vocab_size", default=50257)
    positions = config.count("n_positions", "max_position_embeddings", default=1024)
    inner = config.optional_count("n_inner", default=None) or 4 * width
    function = config.choice("activation_function", default="gelu_new", among=KNOWN)
    dropout = config.probability("resid_pdrop", default=0.1)
    embedding_dropout = config.probability("embd_pdrop", default=0.1)
    tied = config.flag("tie_word_embeddings", default=True)
    shape = Heads(
        heads=heads,
        kv_heads=heads,
        head_dim=config.divides("n_head", heads, whole="n_embd", total=width),
        dropout=config.probability("attn_pdrop", default=0.1),
        upcast=False,
    )

    def write_embedding(tape: Tape) -> None:
        total = tape.add(tape.embed(words, width), tape.embed(positions, width, shared=True))
        tape.dropout(total, embedding_dropout)

    def write_block(tape: Tape, x: Values, _: str) -> None:
        fused = tape.linear(tape.layer_norm(x), 3 * width)
        query, key, value = tape.split(fused, [width] * 3)
        attended = attend(tape, shape, query=query, key=key, value=value)
        x = tape.add(tape.dropout(tape.linear(attended, width), dropout), x)
        wide = activate(tape, tape.linear(tape.layer_norm(x), inner), function)
        tape.add(tape.dropout(tape.linear(wide, width), dropout), x)

    def write_head(tape: Tape, x: Values) -> None:
        tape.score(tape.layer_norm(x), words, bias=False)

    return Architecture(
        family="gpt2",
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
    )
