"""How many query and key heads does a decoder's configuration ask for, and how wide are they?"""

from tuner.families.attention import Heads
from tuner.families.reading import ConfigReader


def read_heads(
    config: ConfigReader,
    *,
    hidden_size: int,
    heads: int,
    kv_heads: int | None = None,
    head_dim: int | None = None,
) -> Heads:
    """Read head counts and widths; `heads`, `kv_heads` and `head_dim` are the family's defaults.

    A missing or null `num_key_value_heads` without a default is one key head for each query head; a missing or null
    `head_dim` is hidden_size / heads.
    """
    queries = config.count("num_attention_heads", default=heads)
    keys = config.optional_count("num_key_value_heads", default=kv_heads) or queries
    config.divides("num_key_value_heads", keys, "num_attention_heads", queries)
    width = config.optional_count("head_dim", default=head_dim)
    return Heads(
        heads=queries,
        kv_heads=keys,
        head_dim=width or config.divides("num_attention_heads", queries, "hidden_size", hidden_size),
        dropout=config.probability("attention_dropout", default=0.0),
    )
