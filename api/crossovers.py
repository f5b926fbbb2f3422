"""What do stored studies gain that share their devices in turns?"""

from typing import Annotated, Any

from pydantic import Field

from api.computing import crossovers
from api.computing.crossovers import Sharing
from api.computing.result import Result
from api.service import Service
from api.studies import store as studies
from api.studies.questions import texts_of
from profiles.document import Part
from tuner.assignments import read_piece
from tuner.crossover import MOST_JOBS, Crossover
from tuner.crossover_lanes import Lanes

_Id = Annotated[str, Field(min_length=1, max_length=100)]


class CrossoverRequest(Part):
    """Which studies share their devices."""

    studies: Annotated[tuple[_Id, ...], Field(min_length=2, max_length=MOST_JOBS)]
    """Their ids; one may be named more than once, for equal jobs."""


def predict(value: Any, service: Service) -> Result:
    """Answer a parsed body with a Crossover.

    Raises NotFoundProblem and ConflictProblem for studies that are not there or have no plan yet,
    TooManyProblem, and TunerError where their jobs cannot share.
    """
    return service.computing.call(crossovers.crossover, _read_sharing(value, service))


def picture(value: Any, service: Service) -> tuple[Crossover, Lanes, Lanes]:
    """The same with what the ranks compute, one after the other and in turns; raises as `predict` does."""
    made = service.computing.call(crossovers.pictured, _read_sharing(value, service))
    return crossovers.PICTURED.validate_json(made.content)


def _read_sharing(value: Any, service: Service) -> list[Sharing]:
    asked = read_piece(CrossoverRequest, value, name="the request")
    with service.database.reading() as session:
        found = [studies.read_question(session, identifier) for identifier in asked.studies]
    service.charge("crossovers")
    return [
        Sharing(
            name=f"{identifier} ({plan.model.name})",
            plan=plan.model_dump_json(),
            asked=texts_of(question),
        )
        for identifier, (question, plan) in zip(asked.studies, found, strict=True)
    ]
