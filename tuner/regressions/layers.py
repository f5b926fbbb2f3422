"""Which layers are slower or keep more than before, beyond the noise of both profiles?

The uncertainty of a median of n repeats that spread by s is s/√n; where a layer was timed several times, how
far the two shortest are apart counts where it is more. A layer is slower if it takes more than
max(threshold, k·u) longer, u² the sum of both squared uncertainties.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import sqrt

from profiles.model import ModelDescription
from profiles.timings import Profile, TimingPoint
from tuner.regressions.answer import Change, regressed
from tuner.regressions.manifest import Thresholds

Points = dict[tuple[str, int], TimingPoint]
_WHOLE = "all layers"
_SMALLEST_S = 5e-6
"""Less than this is the clock's and the launch's, where layers were timed."""
_SMALLEST_BYTES = 4096
"""Less more than this is alignment, not a change."""


def slower_layers(before: Profile, after: Profile, thresholds: Thresholds) -> Iterator[Change]:
    """Layer types that take longer at a micro-batch size; all together where their types are not the same."""
    was, now = points_of(before), points_of(after)
    for kind, size in sorted(was.keys() & now.keys()):
        old, new = was[kind, size], now[kind, size]
        allowed = max(thresholds.time, thresholds.spreads * _together(old, new))
        if old.repeats and new.repeats and _seconds(new) - _seconds(old) < _SMALLEST_S:
            continue
        yield from _slower(kind, size, seconds=(_seconds(old), _seconds(new)), allowed=allowed)
    if {kind for kind, _ in was} != {kind for kind, _ in now}:
        for size in sorted({size for _, size in was} & {size for _, size in now}):
            seconds = _total(before.description, was, size), _total(after.description, now, size)
            noise = sqrt(_worst(was, size) ** 2 + _worst(now, size) ** 2)
            allowed = max(thresholds.time, thresholds.spreads * noise)
            yield from _slower(_WHOLE, size, seconds=seconds, allowed=allowed)


def larger_layers(before: Profile, after: Profile, thresholds: Thresholds) -> Iterator[Change]:
    """Layer types that keep more bytes for the backward, or hold more parameters."""
    was, now = points_of(before), points_of(after)
    old_layers = {layer.type: layer for layer in before.description.layers}
    new_layers = {layer.type: layer for layer in after.description.layers}
    for kind in [kind for kind in old_layers if kind in new_layers]:
        old, new = old_layers[kind], new_layers[kind]
        yield from _larger(
            kind, "parameters", None, counts=(old.parameters, new.parameters), allowed=thresholds.memory
        )
        for size in sorted(size for name, size in was.keys() & now.keys() if name == kind):
            for field, told in (("activation_bytes", "kept bytes"), ("transient_bytes", "transient bytes")):
                counts = (
                    _bytes(getattr(was[kind, size], field), getattr(old, field).at(size)),
                    _bytes(getattr(now[kind, size], field), getattr(new, field).at(size)),
                )
                yield from _larger(kind, told, size, counts=counts, allowed=thresholds.memory)


def noise_of(before: Profile, after: Profile) -> float:
    """The largest uncertainty of a layer time in both profiles together; 0 for estimates."""
    was, now = points_of(before), points_of(after)
    return max((_together(was[key], now[key]) for key in was.keys() & now.keys()), default=0.0)


def noise_hides(profile: Profile, thresholds: Thresholds) -> bool:
    """Whether the uncertainty of a layer, and not the threshold, decides how much slower it may become."""
    return (
        thresholds.spreads * max(map(uncertainty, points_of(profile).values()), default=0.0) > thresholds.time
    )


def best_of(*profiles: Profile) -> Profile:
    """Profiles of one model: the shortest time of each layer, with how far the two shortest were apart.

    What disturbs a measurement makes it longer, so the shortest is nearest the truth.
    """
    first = profiles[0]
    points: dict[tuple[str, int], list[TimingPoint]] = {}
    for profile in profiles:
        for key, point in points_of(profile).items():
            points.setdefault(key, []).append(point)
    types = tuple(
        entry.model_copy(
            update={"points": tuple(_best(points[entry.type, p.micro_batch_size]) for p in entry.points)}
        )
        for entry in first.timings.types
    )
    return first.model_copy(update={"timings": first.timings.model_copy(update={"types": types})})


def points_of(profile: Profile) -> Points:
    """The points of a profile by layer type and micro-batch size."""
    return {
        (entry.type, point.micro_batch_size): point
        for entry in profile.timings.types
        for point in entry.points
    }


def uncertainty(point: TimingPoint) -> float:
    """Relative: s/√n."""
    return (point.spread or 0.0) / sqrt(point.repeats or 1)


def _best(points: Sequence[TimingPoint]) -> TimingPoint:
    short, *others = sorted(points, key=_seconds)
    if not others:
        return short
    apart = _seconds(others[0]) / _seconds(short) - 1
    # Written as a spread, so that s/√n is at least half of how far they are apart.
    spread = apart / 2 * sqrt(short.repeats or 1)
    return short.model_copy(update={"spread": max(short.spread or 0.0, spread)})


def _slower(kind: str, size: int, *, seconds: tuple[float, float], allowed: float) -> Iterator[Change]:
    before, after = seconds
    relative = after / before - 1
    if relative > allowed:
        yield regressed(
            "slower_layer",
            kind,
            micro_batch_size=size,
            before=before,
            after=after,
            allowed=allowed,
            message=f"{kind} is {relative:.0%} slower at B={size}: {before * 1e3:.3f} ms became "
            f"{after * 1e3:.3f} ms",
        )


def _larger(
    kind: str, what: str, size: int | None, *, counts: tuple[int, int], allowed: float
) -> Iterator[Change]:
    before, after = counts
    if after - before > max(_SMALLEST_BYTES if size else 0, allowed * before):
        more = f"{after / before - 1:.0%} more {what}" if before else what
        yield regressed(
            "more_memory",
            f"{kind}, {what}",
            micro_batch_size=size,
            before=before,
            after=after,
            allowed=allowed,
            message=f"{kind} has {more}{f' at B={size}' if size else ''}: {before:,} became {after:,}",
        )


def _seconds(point: TimingPoint) -> float:
    return point.forward_s + point.backward_s


def _together(old: TimingPoint, new: TimingPoint) -> float:
    return sqrt(uncertainty(old) ** 2 + uncertainty(new) ** 2)


def _total(description: ModelDescription, points: Points, size: int) -> float:
    counts = Counter(layer.type for layer in description.layers)
    return sum(counts[kind] * _seconds(point) for (kind, at), point in points.items() if at == size)


def _worst(points: Points, size: int) -> float:
    return max(uncertainty(point) for (_, at), point in points.items() if at == size)


def _bytes(measured: int | None, described: int) -> int:
    return described if measured is None else measured
