"""What does someone ask who makes a study? A plan, under a name, and perhaps trials."""

from dataclasses import dataclass
from typing import Any

from api.web.problems import InvalidProblem
from tuner.assignments import read_piece
from tuner.refine_request import RefineRequest
from tuner.request import PlanRequest, read_request

LONGEST_NAME = 200


@dataclass(frozen=True)
class Submission:
    """A study as it is submitted."""

    name: str | None
    request: PlanRequest
    document: dict[str, Any]
    """The request as it was sent, without `name` and `refine`."""
    refine: RefineRequest | None = None
    """What it may spend on trials; None where none were asked for."""


def read_submission(value: Any) -> Submission:
    """Check a parsed body; raises RequestError, UnsupportedOptionError or InvalidProblem."""
    if not isinstance(value, dict):
        return Submission(None, read_request(value), {})
    name = _check_name(value.get("name"))
    refine = value.get("refine")
    document = {key: entry for key, entry in value.items() if key not in {"name", "refine"}}
    return Submission(
        name,
        read_request(document),
        document,
        None if refine is None else read_piece(RefineRequest, refine, name="refine"),
    )


def _check_name(name: Any) -> str | None:
    if name is None:
        return None
    # What is blank could not be clicked.
    if not (isinstance(name, str) and len(name) <= LONGEST_NAME and name.isprintable() and name.strip()):
        raise InvalidProblem(f"name: must be one line of 1 to {LONGEST_NAME} characters, not all blank")
    return name
