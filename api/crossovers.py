"""What do stored studies gain that share their devices in turns?"""

from typing import Annotated, Any

from pydantic import Field

from api.service import Service
from api.studies import store as studies
from api.studies.timelines import as_calibrated
from profiles import library
from profiles.document import Part
from tuner.assignments import read_piece
from tuner.crossover import MOST_JOBS, Crossover, Sharer, cross_over, sharer_of

_Id = Annotated[str, Field(min_length=1, max_length=100)]


class CrossoverRequest(Part):
    """Which studies share their devices."""

    studies: Annotated[tuple[_Id, ...], Field(min_length=2, max_length=MOST_JOBS)]
    """Their ids; one may be named more than once, for equal jobs."""


def predict(value: Any, service: Service) -> Crossover:
    """Answer a parsed body.

    Raises NotFoundProblem and ConflictProblem for studies that are not there or have no plan yet,
    TooManyProblem, and TunerError where their jobs cannot share.
    """
    return cross_over(read_sharers(value, service))


def read_sharers(value: Any, service: Service) -> list[Sharer]:
    """The jobs of a parsed body; raises as `predict` does."""
    asked = read_piece(CrossoverRequest, value, name="the request")
    with service.database.reading() as session:
        found = [studies.read_question(session, identifier) for identifier in asked.studies]
    service.charge("crossovers")
    return [
        sharer_of(
            f"{identifier} ({plan.model.name})",
            plan,
            library,
            request=as_calibrated(question),
            profile=question.profile,
        )
        for identifier, (question, plan) in zip(asked.studies, found, strict=True)
    ]
