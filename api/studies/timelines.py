"""What does a study look like over time? Its choice, or any other candidate.

Simulated when someone wants to see it, and kept for a while under the hash of what it is made of.
"""

import hashlib
from dataclasses import dataclass

from api.computing import timelines as computed
from api.service import Service
from api.studies.questions import Question, texts_of
from api.web.problems import ConflictProblem, NotFoundProblem
from profiles.document import canonical_json
from tuner.plan import Candidate, Plan


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

    def make() -> bytes:
        service.charge("timelines")
        return service.computing.call(computed.timeline, texts_of(question), _text(candidate)).content

    return KeptTimeline(key, service.timelines.find(key, make))


def find_trace(service: Service, question: Question, candidate: Candidate) -> bytes:
    """The same with its messages, for Perfetto; raises TunerError."""
    service.charge("timelines")
    return service.computing.call(computed.trace, texts_of(question), _text(candidate)).content


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


def _text(candidate: Candidate) -> str:
    return candidate.model_dump_json(exclude={"memory"})
