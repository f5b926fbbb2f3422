"""Which blocks has each stage of a Megatron-LM run? What its flags say, and where they say nothing its rule.

Rules of `get_num_layers_to_build` in Megatron Core 0.19: outer stages of a size of their own, or the
embedding and the loss counted as a block each, or as many blocks everywhere. What does not divide is refused,
as there.
"""

import re
from dataclasses import dataclass

from tuner.imports.errors import ImportedError
from tuner.imports.megatron_flags import Flags

_LAYOUT = "--pipeline-model-parallel-layout"
_OUTER = ("--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers")
_COUNTED = ("--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split")
_MOST_STAGES = 10_000


@dataclass(frozen=True)
class Stages:
    """The stages of a run, round the ranks."""

    chunks: int
    """Stages of each rank."""
    blocks: tuple[int, ...] | None
    """Blocks of each stage, where the flags say."""

    def check(self, blocks: int, depth: int) -> None:
        """Raise ImportedError where they do not hold the model's blocks, each once."""
        stages = depth * self.chunks
        if self.blocks is None and blocks % stages:
            raise ImportedError(
                f"{blocks} blocks do not divide over {stages} stages, which Megatron-LM refuses (its older "
                f"releases leave out {blocks % stages} blocks): give {', '.join(_OUTER)} or {_LAYOUT}"
            )
        if self.blocks is not None and sum(self.blocks) != blocks:
            raise ImportedError(
                f"the stages have {','.join(map(str, self.blocks))[:80]} blocks, together "
                f"{sum(self.blocks)}, and the model has {blocks}"
            )


def read_stages(flags: Flags, depth: int) -> Stages:
    """The stages; raises ImportedError for flags that Megatron-LM refuses too."""
    text = flags.text(_LAYOUT)
    if text is not None:
        counts = read_layout(text)
        if len(counts) % depth:
            raise ImportedError(f"{_LAYOUT} has {len(counts)} stages, which {depth} ranks do not divide")
        return Stages(len(counts) // depth, counts)
    chunks = _chunks(flags, depth)
    if flags.has(*_OUTER):
        return Stages(chunks, _with_outer(flags, depth, chunks))
    if flags.has(*_COUNTED):
        return Stages(chunks, _with_counted(flags, depth * chunks))
    return Stages(chunks, None)


def read_layout(text: str) -> tuple[int, ...]:
    """Blocks of each stage of a --pipeline-model-parallel-layout, as Megatron-LM unrolls it."""
    plain = text.replace(",", "").strip()
    for pattern in (r"\(([^()]*)\)\*(\d{1,5})", r"([EtmL|])\*(\d{1,5})"):
        plain = re.sub(pattern, lambda match: match[1] * min(int(match[2]), _MOST_STAGES), plain)
        if len(plain) > 100 * _MOST_STAGES:
            raise ImportedError(f"{_LAYOUT} unrolls to too many stages")
    if not re.fullmatch(r"E[t|m]*L", plain) or "m" in plain:
        raise ImportedError(f"{_LAYOUT} {text[:80]!r} is not of E, t, | and L, as in Et*3|t*4|t*3L")
    return tuple(stage.count("t") for stage in plain.split("|"))


def _chunks(flags: Flags, depth: int) -> int:
    if depth == 1:
        return 1
    if flags.has("--num-virtual-stages-per-pipeline-rank"):
        return flags.count("--num-virtual-stages-per-pipeline-rank")
    name = "--num-layers-per-virtual-pipeline-stage"
    if not flags.has(name):
        return 1
    layers = flags.count("--num-layers") + sum(flags.has(flag) for flag in _COUNTED)
    return _divided(layers, depth * flags.count(name), f"D times {name}")


def _with_outer(flags: Flags, depth: int, chunks: int) -> tuple[int, ...]:
    """The first and the last rank as told, the others with as many blocks each."""
    layers = flags.count("--num-layers")
    first, last = (flags.count(name) if flags.has(name) else None for name in _OUTER)
    if depth == 1:
        told = {count for count in (first, last) if count is not None}
        if told != {layers}:
            raise ImportedError(f"{' and '.join(_OUTER)} say other than --num-layers {layers} at D=1")
        return (layers,)
    between = depth - (first is not None) - (last is not None)
    left = layers - (first or 0) - (last or 0)
    if left < 0 or (left and not between):
        raise ImportedError(f"{' and '.join(_OUTER)} leave {left} of {layers} blocks to {between} ranks")
    each = _divided(left, between, "the ranks between") if between else 0
    ranks = [each] * depth
    ranks[0], ranks[-1] = (each if first is None else first), (each if last is None else last)
    return tuple(_divided(count, chunks, "stages of a rank") for _ in range(chunks) for count in ranks)


def _with_counted(flags: Flags, stages: int) -> tuple[int, ...]:
    """The embedding counts as a block of the first stage, the loss as one of the last."""
    embedding, loss = (int(flags.has(name)) for name in _COUNTED)
    total = flags.count("--num-layers") + embedding + loss
    counts = [_divided(total, stages, "the stages")] * stages
    counts[0] -= embedding
    counts[-1] -= loss
    return tuple(counts)


def _divided(layers: int, parts: int, what: str) -> int:
    if layers % parts:
        raise ImportedError(
            f"{layers} layers do not divide by {parts:,} ({what}), which Megatron-LM refuses (its older "
            f"releases leave out {layers % parts}): give {_LAYOUT}"
        )
    return layers // parts
