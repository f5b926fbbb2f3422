"""What does a study look like over time? Its choice, or any other candidate.

Simulated when someone wants to see it, and kept for a while under the hash of what it is made of.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

from api.reports.lanes import HeldLane
from api.reports.timeline import embedded_beside, embedded_timeline
from api.service import Service
from api.studies.questions import Question
from api.web.problems import ConflictProblem, NotFoundProblem
from profiles import library
from profiles.document import canonical_json
from tuner.enactment import enact_candidate
from tuner.error_bars import calibrated_request
from tuner.plan import Candidate, Plan
from tuner.request import PlanRequest
from tuner.timeline import Timeline
from tuner.timeline_document import timeline_document


@dataclass(frozen=True)
class KeptTimeline:
    """A timeline as it is sent."""

    key: str
    """Names what it is made of: equal keys, equal timelines."""
    gzipped: bytes


def candidate_of(plan: Plan, number: int | None) -> Candidate:
    """The choice, or the candidate of that place in the ranked list, counted from 1; raises a Problem."""
    if number is not None:
        if not 1 <= number <= len(plan.candidates):
            raise NotFoundProblem(
                f"there is no candidate {number:,}: the plan lists {len(plan.candidates):,} of "
                f"{plan.candidates_considered:,} that fit; `top` of the request lists more"
            )
        return plan.candidates[number - 1]
    if plan.chosen is None:
        change = plan.smallest_change
        remedy = f"the smallest change that would fit: {change.change}" if change else "use more devices"
        raise ConflictProblem(f"nothing fits, so there is no schedule to look at; {remedy}")
    return plan.chosen


def find_simulated(service: Service, question: Question, candidate: Candidate) -> KeptTimeline:
    """The timeline of a candidate; raises TunerError where it cannot be simulated."""
    key = content_key(question, canonical_json(candidate.model_dump(mode="json", exclude={"memory"})))

    def make() -> dict[str, Any]:
        service.charge("timelines")
        request = as_calibrated(question)
        enacted = enact_candidate(request, candidate, library, profile=question.profile)
        return timeline_document(enacted.timeline, enacted.held)

    return KeptTimeline(key, service.timelines.find(key, make))


def simulate(question: Question, candidate: Candidate) -> Timeline:
    """The same as the tuner has it, with its messages; raises TunerError."""
    return enact_candidate(as_calibrated(question), candidate, library, profile=question.profile).timeline


def read_embedded(question: Question, plan: Plan) -> dict[str, Any] | str | None:
    """The timeline for a report in one file, or why it is left out; None where nothing was chosen."""
    return embedded_timeline(as_calibrated(question), plan, library, profile=question.profile)


def read_beside(question: Question, plan: Plan) -> list[HeldLane]:
    """Other candidates for a report in one file."""
    return embedded_beside(as_calibrated(question), plan, library, profile=question.profile)


def as_calibrated(question: Question) -> PlanRequest:
    """What was asked, of the cluster as its calibration has it."""
    if question.calibration is None:
        return question.request
    return calibrated_request(question.request, question.calibration, library, profile=question.profile)


def content_key(question: Question, *more: str | bytes) -> str:
    """The SHA-256 of a question with its documents, and of what else a timeline is made of."""
    documents = (question.profile, question.calibration)
    parts = [
        canonical_json(question.request.model_dump(mode="json")),
        *("" if document is None else document.fingerprint() for document in documents),
        *more,
    ]
    digest = hashlib.sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else part.encode()
        digest.update(b"%d:" % len(content) + content)
    return digest.hexdigest()
