"""What is the least that must change for the model to fit?"""

from collections import ChainMap
from collections.abc import Callable, Iterator
from typing import Any

from tuner.answer import fullest_rank
from tuner.choice import Choice
from tuner.errors import TunerError
from tuner.evaluated import Evaluated
from tuner.evaluation import Evaluator
from tuner.inputs import PlanInputs
from tuner.plan import ConfigurationDocument, SmallestChange
from tuner.rejection import gigabytes
from tuner.request import MAX_DEVICES, PlanRequest
from tuner.search import Search

_MOST_DOUBLINGS = 6
_USUAL_MARGIN = 0.05

Change = tuple[str, dict[str, Any]]
"""A change in words, and the options that it sets."""

_SHARDING: Change = (
    "shard the optimizer over the replicas (optimizer_sharding=replicas)",
    {"optimizer_sharding": "replicas"},
)


def smallest_change(inputs: PlanInputs, search: Search) -> SmallestChange | None:
    """The first change, cheapest first, after which something fits; else the device memory that would do."""
    freed = list(_freed(inputs.request))
    for changes in _changes(inputs, freed):
        if _fitting(inputs, changes):
            least = _least(changes, lambda fewer: bool(_fitting(inputs, fewer)))
            return _document(least, _fitting(inputs, least)[0])
    if _legal(search):
        return _larger_device(search, [])
    least = _least(freed, lambda fewer: bool(_legal(_search(inputs, fewer))))
    return _larger_device(_search(inputs, least), least)


def _freed(request: PlanRequest) -> Iterator[Change]:
    """What the request holds fixed: first what costs time, then what changes the layout."""
    if request.margin > _USUAL_MARGIN:
        yield f"keep less memory free (margin={_USUAL_MARGIN})", {"margin": _USUAL_MARGIN}
    if request.recompute != "auto":
        yield "allow recomputation (recompute=auto)", {"recompute": "auto"}
    if request.micro_batch_size is not None:
        yield "let the micro-batch size be chosen", {"micro_batch_size": None}
    if request.optimizer_sharding == "none":
        yield _SHARDING
    if request.depth is not None or request.width is not None:
        yield "let width and depth be chosen", {"width": None, "depth": None}
    if request.schedules is not None:
        yield "allow every synchronous schedule", {"schedules": None}


def _changes(inputs: PlanInputs, freed: list[Change]) -> Iterator[list[Change]]:
    """One change alone, then several together, then more devices."""
    yield from ([change] for change in freed)
    yield from (freed[:count] for count in range(2, len(freed) + 1))
    most = min(inputs.cluster.max_devices or MAX_DEVICES, MAX_DEVICES)
    for doubling in range(1, _MOST_DOUBLINGS + 1):
        devices = inputs.request.devices * 2**doubling
        if devices > most:
            return
        more = f"use {devices:,} devices", {"devices": devices}
        yield [more, *(change for change in freed if change != _SHARDING)]
        if _SHARDING in freed:
            yield [more, *freed]


def _least(changes: list[Change], enough: Callable[[list[Change]], bool]) -> list[Change]:
    """`changes` without those that are not needed for it to be enough."""
    for change in list(changes):
        fewer = [other for other in changes if other != change]
        if len(changes) > 1 and enough(fewer):
            changes = fewer
    return changes


def _search(inputs: PlanInputs, changes: list[Change]) -> Search | None:
    """The search of the changed request, None where that cannot be asked."""
    options = dict(ChainMap(*(options for _, options in changes)))
    request: PlanRequest = inputs.request.model_copy(update=options)
    changed = PlanInputs(request, inputs.description, inputs.timings, inputs.accelerator, inputs.cluster)
    try:
        return Search(Evaluator(changed))
    except TunerError:
        return None


def _fitting(inputs: PlanInputs, changes: list[Change]) -> tuple[Choice, ...]:
    search = _search(inputs, changes)
    return search.greedy().fitting if search else ()


def _legal(search: Search | None) -> list[Evaluated]:
    """All that the target runs, whether it fits or not."""
    if search is None:
        return []
    target = search.request.runs_on
    return [group for scheme, layout in search.legal for group in search.allowed(scheme, layout, target)]


def _larger_device(search: Search | None, changes: list[Change]) -> SmallestChange | None:
    """The configuration that needs least, and the memory that a device would have to have."""
    choices = [Choice(group, int(group.peak_bytes.argmin())) for group in _legal(search)]
    if search is None or not choices:
        return None
    least = min(choices, key=lambda choice: (choice.peak_bytes, choice.rank()))
    reserve = fullest_rank(least).reserve_bytes
    needed = (least.peak_bytes - reserve) / (1 - search.request.margin)
    larger: Change = f"use a device with at least {gigabytes(needed)} of memory", {}
    return _document([larger, *changes], least)


def _document(changes: list[Change], choice: Choice) -> SmallestChange:
    configuration = choice.configuration
    return SmallestChange(
        change=" and ".join(text for text, _ in changes),
        configuration=ConfigurationDocument(**configuration.document()),
        memory=fullest_rank(choice),
    )
