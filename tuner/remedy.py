"""What is the least that must change for the model to fit?"""

from collections.abc import Iterator
from typing import Any

from tuner.answer import fullest_rank
from tuner.errors import TunerError
from tuner.evaluation import Evaluator
from tuner.inputs import PlanInputs
from tuner.plan import ConfigurationDocument, SmallestChange
from tuner.rejection import gigabytes
from tuner.request import PlanRequest
from tuner.search import Choice, Search

_MOST_DOUBLINGS = 6


def smallest_change(inputs: PlanInputs, search: Search) -> SmallestChange | None:
    """The first change, cheapest first, after which something fits; else the device memory that would do."""
    for text, changes in _changes(inputs):
        fitting = _fitting(inputs, changes)
        if fitting:
            return _document(text, fitting[0])
    return _larger_device(search)


def _changes(inputs: PlanInputs) -> Iterator[tuple[str, dict[str, Any]]]:
    """By rising cost: what costs time, then what changes the optimizer's layout, then more devices."""
    request = inputs.request
    free: dict[str, Any] = {}
    if request.recompute != "auto":
        free["recompute"] = "auto"
        yield "allow recomputation (recompute=auto)", dict(free)
    if request.micro_batch_size is not None:
        free["micro_batch_size"] = None
        yield "let the micro-batch size be chosen", dict(free)
    if request.optimizer_sharding == "none":
        yield (
            "shard the optimizer over the replicas (optimizer_sharding=replicas)",
            {
                **free,
                "optimizer_sharding": "replicas",
            },
        )
    if request.depth is not None or request.width is not None:
        free |= {"width": None, "depth": None}
        yield "let width and depth be chosen", dict(free)
    if request.schedules is not None:
        yield "allow every synchronous schedule", {**free, "schedules": None}
    yield from _more_devices(inputs, free)


def _more_devices(inputs: PlanInputs, free: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    most = inputs.cluster.max_devices or 10**9
    for doubling in range(1, _MOST_DOUBLINGS + 1):
        devices = inputs.request.devices * 2**doubling
        if devices > min(most, 10_000_000):
            return
        for sharding in ("none", "replicas"):
            text = f"use {devices:,} devices" + (" and shard the optimizer" if sharding == "replicas" else "")
            yield text, {**free, "devices": devices, "optimizer_sharding": sharding}


def _fitting(inputs: PlanInputs, changes: dict[str, Any]) -> tuple[Choice, ...]:
    request: PlanRequest = inputs.request.model_copy(update=changes)
    changed = PlanInputs(request, inputs.description, inputs.timings, inputs.accelerator, inputs.cluster)
    try:
        return Search(Evaluator(changed)).greedy().fitting
    except TunerError:
        return ()


def _larger_device(search: Search) -> SmallestChange | None:
    """The configuration that needs least, and the memory that a device would have to have."""
    groups = [group for scheme, layout in search.legal for group in search.pool(scheme, layout)]
    choices = [Choice(group, int(group.peak_bytes.argmin())) for group in groups]
    if not choices:
        return None
    least = min(choices, key=lambda choice: (choice.peak_bytes, choice.rank()))
    reserve = fullest_rank(least).reserve_bytes
    needed = (least.peak_bytes - reserve) / (1 - search.request.margin)
    return _document(f"use a device with at least {gigabytes(needed)} of memory", least)


def _document(text: str, choice: Choice) -> SmallestChange:
    configuration = choice.evaluated.configuration(choice.index)
    return SmallestChange(
        change=text,
        configuration=ConfigurationDocument(**configuration.document()),
        memory=fullest_rank(choice),
    )
