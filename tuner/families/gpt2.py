"""GPT-2: learned positions, one projection for q, k and v, a plain MLP, layer norms before each half."""

from tuner.families.activation import KNOWN, activate
from tuner.families.architecture import Architecture
from tuner.families.attention import Heads, attend
from tuner.families.grouping import read_layers, read_width
from tuner.families.reading import ConfigReader
from tuner.families.tape import Tape, Values


def read(config: ConfigReader) -> Architecture:
    """Read a configuration of model_type gpt2."""
    config.refuse("add_cross_attention", because="layers that read an encoder are not described")
    config.refuse(
        "reorder_and_upcast_attn", because="its float32 attention is not described; set it to false"
    )
    model = _Gpt2(config)
    tied = config.flag("tie_word_embeddings", default=True)
    return Architecture(
        family="gpt2",
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
    )


class _Gpt2:
    def __init__(self, config: ConfigReader) -> None:
        self.width = read_width(config)
        self.words = config.count("vocab_size", default=50257)
        self.positions = config.count("n_positions", "max_position_embeddings", default=1024)
        self.inner = config.optional_count("n_inner", default=None) or 4 * self.width
        self.function = config.choice("activation_function", default="gelu_new", among=KNOWN)
        self.dropout = config.probability("resid_pdrop", default=0.1)
        self.embedding_dropout = config.probability("embd_pdrop", default=0.1)
        heads = config.count("n_head", "num_attention_heads", default=12)
        self.attention = Heads(
            heads=heads,
            kv_heads=heads,
            head_dim=config.divides("n_head", heads, whole="n_embd", total=self.width),
            dropout=config.probability("attn_pdrop", default=0.1),
            upcast=False,
        )

    def embed(self, tape: Tape) -> None:
        tokens = tape.embed(self.words, self.width)
        total = tape.add(tokens, tape.embed(self.positions, self.width, shared=True))
        tape.dropout(total, self.embedding_dropout)

    def block(self, tape: Tape, x: Values, _: str) -> None:
        fused = tape.linear(tape.layer_norm(x), 3 * self.width)
        query, key, value = tape.split(fused, [self.width] * 3)
        attended = attend(tape, self.attention, query=query, key=key, value=value)
        x = tape.add(tape.dropout(tape.linear(attended, self.width), self.dropout), x)
        wide = activate(tape, tape.linear(tape.layer_norm(x), self.inner), self.function)
        tape.add(tape.dropout(tape.linear(wide, self.width), self.dropout), x)

    def head(self, tape: Tape, x: Values) -> None:
        tape.score(tape.layer_norm(x), self.words, bias=False)
