"""What does the choice of a stored plan look like over time? Simulated again when someone wants to see it."""

from typing import Any

from api.reports.timeline import embedded_timeline
from api.studies.questions import Question
from api.web.problems import ConflictProblem
from profiles import library
from tuner.enactment import enact_chosen
from tuner.error_bars import calibrated_request
from tuner.plan import Plan
from tuner.request import PlanRequest
from tuner.timeline import Timeline


def read_timeline(question: Question, plan: Plan) -> Timeline:
    """The timeline of what `plan` chose; raises ConflictProblem where nothing was, and TunerError."""
    timeline = enact_chosen(as_calibrated(question), plan, library, profile=question.profile)
    if timeline is None:
        change = plan.smallest_change
        remedy = f"the smallest change that would fit: {change.change}" if change else "use more devices"
        raise ConflictProblem(f"nothing fits, so there is no schedule to look at; {remedy}")
    return timeline


def read_embedded(question: Question, plan: Plan) -> dict[str, Any] | str | None:
    """The timeline for a report in one file, or why it is left out; None where nothing was chosen."""
    return embedded_timeline(as_calibrated(question), plan, library, profile=question.profile)


def as_calibrated(question: Question) -> PlanRequest:
    """What was asked, of the cluster as its calibration has it."""
    if question.calibration is None:
        return question.request
    return calibrated_request(question.request, question.calibration, library, profile=question.profile)
