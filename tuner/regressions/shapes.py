"""Is it still the same model? Vocabulary, attention, heads, sizes and numbers of layers, said by name."""

from collections import Counter
from collections.abc import Iterator

from profiles.model import Layer, ModelDescription
from tuner.regressions.answer import Change, Kind

_ATTENTION_KEYS = {"heads", "kv_heads", "head_size", "window", "attention"}
_WORDS = {"kv_heads": "key/value heads", "heads": "attention heads", "intermediate_size": "intermediate size"}


def changed_shapes(before: ModelDescription, after: ModelDescription) -> Iterator[Change]:
    """What the model is now that it was not.

    A difference fails a check unless its number fell and the layer costs less for it in FLOPs, parameters or
    bytes and no more in any: then it is only told.
    """
    if before.vocabulary_size != after.vocabulary_size:
        yield _change(
            "vocabulary", "vocabulary size", (before.vocabulary_size, after.vocabulary_size),
            regression=after.vocabulary_size > before.vocabulary_size,
        )  # fmt: skip
    if before.attention != after.attention:
        yield _kernel(before.attention, after.attention)
    if before.hidden_size != after.hidden_size:
        regression = after.hidden_size > before.hidden_size
        yield _change("shape", "hidden size", (before.hidden_size, after.hidden_size), regression=regression)
    yield from _changed_layers(before, after)
    yield from _counted(before, after)


def _kernel(before: str, after: str) -> Change:
    dropped = after == "eager"
    told = (
        "the fused attention kernel was dropped: flash became eager, which keeps the attention matrices"
        if dropped
        else f"attention {before} became {after}"
    )
    return Change(
        kind="attention",
        what="attention kernel",
        before=before,
        after=after,
        regression=dropped,
        message=told,
    )


def _changed_layers(before: ModelDescription, after: ModelDescription) -> Iterator[Change]:
    old = {layer.type: layer for layer in before.layers}
    new = {layer.type: layer for layer in after.layers}
    for kind in [kind for kind in old if kind in new]:
        was, now = old[kind].shape, new[kind].shape
        for key in sorted(was.keys() | now.keys()):
            # The hidden size of a model is that of its layers, and is told once.
            if was.get(key) != now.get(key) and not (
                key == "hidden_size" and before.hidden_size != after.hidden_size
            ):
                yield _change(
                    "attention" if key in _ATTENTION_KEYS else "shape",
                    f"{kind}, {_WORDS.get(key, key.replace('_', ' '))}",
                    (was.get(key), now.get(key)),
                    regression=_grew(was.get(key), now.get(key)) or not _cheaper(old[kind], new[kind]),
                )


def _counted(before: ModelDescription, after: ModelDescription) -> Iterator[Change]:
    was = Counter(layer.type for layer in before.layers)
    now = Counter(layer.type for layer in after.layers)
    for kind in sorted(was.keys() | now.keys()):
        if was[kind] != now[kind]:
            yield _change(
                "layers", f"layers of type {kind}", (was[kind], now[kind]), regression=now[kind] > was[kind]
            )


def _grew(before: int | str | None, after: int | str | None) -> bool:
    return isinstance(before, int) and isinstance(after, int) and after > before


def _cheaper(before: Layer, after: Layer) -> bool:
    costs = [
        (getattr(after, field), getattr(before, field))
        for field in ("forward_flops", "backward_flops", "parameters")
    ]
    costs += [
        (getattr(after, field).at(size), getattr(before, field).at(size))
        for field in ("activation_bytes", "transient_bytes")
        for size in (1, 64)
    ]
    return all(new <= old for new, old in costs) and any(new < old for new, old in costs)


def _change(
    kind: Kind, what: str, values: tuple[int | str | None, int | str | None], *, regression: bool
) -> Change:
    before, after = values
    numbers = isinstance(before, int) and isinstance(after, int) and before > 0
    return Change(
        kind=kind,
        what=what,
        before=before,
        after=after,
        relative=after / before - 1 if numbers else None,  # type: ignore[operator]
        regression=regression,
        message=f"{what}: {_shown(before)} became {_shown(after)}",
    )


def _shown(value: int | str | None) -> str:
    return "none" if value is None else f"{value:,}" if isinstance(value, int) else value
