"""What does the choice of a stored plan look like over time? Simulated again when someone wants to see it."""

from typing import Any

from api.database import Database
from api.planning import find_profile
from api.problems import ConflictProblem
from api.reports.timeline import embedded_timeline
from profiles import library
from tuner.enactment import enact_chosen
from tuner.plan import Plan
from tuner.request import read_request
from tuner.timeline import Timeline


def read_timeline(request: dict[str, Any], plan: Plan, database: Database) -> Timeline:
    """The timeline of what `plan` chose; raises ConflictProblem where nothing was, and TunerError."""
    asked = read_request(request)
    timeline = enact_chosen(asked, plan, library, profile=find_profile(asked, database))
    if timeline is None:
        change = plan.smallest_change
        remedy = f"the smallest change that would fit: {change.change}" if change else "use more devices"
        raise ConflictProblem(f"nothing fits, so there is no schedule to look at; {remedy}")
    return timeline


def read_embedded(request: dict[str, Any], plan: Plan, database: Database) -> dict[str, Any] | str | None:
    """The timeline for a report in one file, or why it is left out; None where nothing was chosen."""
    asked = read_request(request)
    return embedded_timeline(asked, plan, library, profile=find_profile(asked, database))
