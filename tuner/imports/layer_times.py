"""What becomes of times that somebody took of layers? A profile, with estimates for what was not timed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from statistics import median

import numpy as np

from profiles.device import Accelerator
from profiles.model import ModelDescription
from profiles.timings import LayerTimings, Profile, TimingPoint, TypeTimings
from tuner.estimate import estimate_timings
from tuner.imports.errors import ImportedError


@dataclass(frozen=True)
class LayerTime:
    """One forward and backward of one layer."""

    layer: str
    """A name that the model's layers are found by."""
    micro_batch_size: int
    forward_s: float
    backward_s: float
    activation_bytes: int | None = None


Names = Sequence[tuple[str, str]]
"""(layer type, pattern of the names that stand for it), in the order in which they are tried."""


def names_of(description: ModelDescription, given: Names = ()) -> Names:
    """Patterns for the layers of a model: what was given, then their own names, types and kinds."""
    layers = description.layers
    own = [(layer.type, layer.name) for layer in layers]
    own += [(layer.type, f"*.{layer.name}") for layer in layers]
    types = [(layer.type, layer.type) for layer in layers]
    kinds: dict[str, set[str]] = {}
    for layer in layers:
        kinds.setdefault(layer.kind, set()).add(layer.type)
    alone = [(next(iter(found)), kind) for kind, found in kinds.items() if len(found) == 1]
    known = {layer.type for layer in layers}
    for wanted, _ in given:
        if wanted not in known:
            raise ImportedError(
                f"{wanted[:60]!r} is no type of layer of {description.name}: it has "
                f"{', '.join(sorted(known))}"
            )
    return [*given, *dict.fromkeys([*own, *types, *alone])]


def type_named(name: str, names: Names) -> str | None:
    """The layer type that a name stands for, None for any other name."""
    return next((found for found, pattern in names if name == pattern or fnmatchcase(name, pattern)), None)


def profile_from_times(
    description: ModelDescription,
    times: Iterable[LayerTime],
    accelerator: Accelerator,
    *,
    names: Names,
    source: str,
) -> Profile:
    """A profile whose times are medians; raises ImportedError where no block was timed.

    Types that were not timed are estimated at the same sizes, and the profile says which.
    """
    found: dict[str, dict[int, list[LayerTime]]] = {}
    for time in times:
        wanted = type_named(time.layer, names)
        if wanted is not None:
            found.setdefault(wanted, {}).setdefault(time.micro_batch_size, []).append(time)
    blocks = {layer.type for layer in description.layers if layer.kind == "block"}
    if not blocks <= found.keys():
        raise ImportedError(
            f"no times of {', '.join(sorted(blocks - found.keys()))} were found in {source}: name rows or "
            "ranges as the model's layers are named (layers.0), or as their types or kinds (block)"
        )
    sizes = sorted({size for each in found.values() for size in each})
    estimated = estimate_timings(description, accelerator, micro_batch_sizes=sizes)
    types = tuple(
        _measured(entry, found[entry.type]) if entry.type in found else entry for entry in estimated.types
    )
    missing = [entry.type for entry in estimated.types if entry.type not in found]
    notes = (f"not timed, and estimated: {', '.join(missing)}",) if missing else ()
    timings = estimated.model_copy(
        update={
            "types": types,
            "software": "imported",
            "source": f"Imported from {source}"[:2_000],
            "notes": notes,
        }
    )
    return Profile(description=description, timings=LayerTimings.model_validate(timings.model_dump()))


def _measured(entry: TypeTimings, by_size: dict[int, list[LayerTime]]) -> TypeTimings:
    points = tuple(_point(size, by_size[size]) for size in sorted(by_size))
    return entry.model_copy(update={"provenance": "measured", "points": points})


def _point(size: int, times: list[LayerTime]) -> TimingPoint:
    totals = np.array([time.forward_s + time.backward_s for time in times])
    kept = [time.activation_bytes for time in times if time.activation_bytes is not None]
    return TimingPoint(
        micro_batch_size=size,
        forward_s=median(time.forward_s for time in times),
        backward_s=median(time.backward_s for time in times),
        spread=float(np.std(totals) / np.mean(totals)) if len(times) > 1 else None,
        activation_bytes=int(median(kept)) if kept else None,
        repeats=len(times),
    )
