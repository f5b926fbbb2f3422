"""How many layers, how wide, with which heads and which local attention, does a configuration ask for?"""

from collections.abc import Callable

from tuner.errors import UnsupportedModelError
from tuner.families.attention import Heads
from tuner.families.reading import MOST_LAYERS, ConfigReader

LAYERS = ("num_hidden_layers", "n_layer", "num_layers")
WIDTH = ("hidden_size", "n_embd", "d_model")
LAYER_TYPES = {"full_attention": "block", "sliding_attention": "block.sliding"}


def read_heads(
    config: ConfigReader,
    *,
    hidden_size: int,
    heads: int = 32,
    kv_heads: int | None = None,
    head_dim: int | None = None,
) -> Heads:
    """Read head counts and widths of rotary attention; `heads`, `kv_heads` and `head_dim` are defaults.

    A null `num_key_value_heads`, or a missing one without a default, is one key head for each query
    head; the same of `head_dim` is hidden_size / heads.
    """
    queries = config.count("num_attention_heads", default=heads)
    keys = config.optional_count("num_key_value_heads", default=kv_heads) or queries
    config.divides("num_key_value_heads", keys, whole="num_attention_heads", total=queries)
    width = config.optional_count("head_dim", default=head_dim)
    if width is None:
        width = config.divides("num_attention_heads", queries, whole="hidden_size", total=hidden_size)
    check_rotated(width)
    return Heads(
        heads=queries,
        kv_heads=keys,
        head_dim=width,
        dropout=config.probability("attention_dropout", default=0.0),
    )


def check_rotated(width: int) -> None:
    """Refuse an odd width: `transformers` builds such a model, and its first forward fails."""
    if width % 2:
        raise UnsupportedModelError(
            f"the configuration rotates {width} elements of each head, an odd number, and positions rotate "
            "pairs: such a model cannot run. Correct head_dim, num_attention_heads or the rotated part"
        )


def check_sizes(config: ConfigReader) -> None:
    """Refuse a configuration without number or width of layers: without them it is another model's.

    `transformers` would take those of the family's base model, and so plan 7 billion parameters for
    {"model_type": "llama"}.
    """
    essential = {"number of layers": LAYERS, "hidden size": WIDTH}
    missing = [f"{noun} ({' or '.join(keys)})" for noun, keys in essential.items() if not config.has(*keys)]
    if missing:
        raise UnsupportedModelError(
            f"the configuration does not say its {' and its '.join(missing)}, which are not guessed. Add "
            "what is missing, or pass the whole config.json that stands beside the weights of the model."
        )


def read_layers(config: ConfigReader) -> int:
    """Read the number of layers."""
    return config.count(*LAYERS, at_most=MOST_LAYERS)


def read_width(config: ConfigReader) -> int:
    """Read the hidden size."""
    return config.count(*WIDTH)


def read_block_types(config: ConfigReader, layers: int, *, slides: Callable[[int], bool]) -> tuple[str, ...]:
    """Read `layer_types`; without them, block i has local attention where `slides(i)`."""
    given = config.words("layer_types", length=layers, among=frozenset(LAYER_TYPES))
    if given is None:
        given = ["sliding_attention" if slides(index) else "full_attention" for index in range(layers)]
    return tuple(LAYER_TYPES[kind] for kind in given)
