"""What do the choices of several plans gain that take turns on the same devices?"""

from collections.abc import Sequence
from typing import TypedDict

from pydantic import TypeAdapter

from api.computing.asked import Asked, read_calibrated
from api.computing.result import Result, as_bytes
from profiles import library
from tuner.crossover import Crossover, Sharer, cross_over, sharer_of
from tuner.crossover_lanes import Lanes, crossover_lanes
from tuner.plan import Plan

PICTURED: TypeAdapter[tuple[Crossover, Lanes, Lanes]] = TypeAdapter(tuple[Crossover, Lanes, Lanes])


class Sharing(TypedDict):
    """One of the plans, and what it was asked with."""

    name: str
    plan: str
    asked: Asked


def crossover(jobs: Sequence[Sharing]) -> Result:
    """The prediction; raises TunerError where they cannot share."""
    return Result(as_bytes(cross_over([_sharer(job) for job in jobs]).model_dump(mode="json")))


def pictured(jobs: Sequence[Sharing]) -> Result:
    """The prediction, and what the ranks compute one after the other and in turns; raises as `crossover`."""
    sharers = [_sharer(job) for job in jobs]
    return Result(PICTURED.dump_json((cross_over(sharers), *crossover_lanes(sharers))))


def _sharer(job: Sharing) -> Sharer:
    request, profile = read_calibrated(job["asked"])
    plan = Plan.model_validate_json(job["plan"])
    return sharer_of(job["name"], plan, library, request=request, profile=profile)
