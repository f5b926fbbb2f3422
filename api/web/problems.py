"""What does a client hear when something is wrong? RFC 9457 problem documents, one class each.

Problem
├── MalformedBodyProblem   400  ├── NotAllowedProblem      405  ├── WrongMediaTypeProblem  415
├── UnauthorizedProblem    401  ├── ConflictProblem        409  ├── InvalidProblem         422
├── ForbiddenProblem       403  ├── StaleLeaseProblem      409  ├── WorkerVersionProblem   426
├── NotFoundProblem        404  ├── TooLargeProblem        413  ├── TooManyProblem         429
├── DefectProblem          500  ├── UnavailableProblem     503  └── TimeoutProblem         504
"""

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from tuner.messages import PROTOCOL

MEDIA_TYPE = "application/problem+json"
MAX_DETAIL = 4_000


class ProblemDocument(BaseModel):
    """What is wrong, the numbers, and what to do (RFC 9457)."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    type: str
    """Names the kind of problem; stable."""
    title: str
    """The kind of problem in words."""
    status: int
    detail: str
    """This occurrence: what happened, the numbers, what to do."""
    id: str | None = None
    """For a defect of the service: the id under which it was logged."""
    request_id: str | None = None
    """For a defect: the id of the request, as in the header X-Request-ID."""


class Problem(Exception):  # noqa: N818  # RFC 9457 calls it a problem
    """Something to tell the client; `detail` says what happened, the numbers, and what to do."""

    status: ClassVar[int] = 500
    slug: ClassVar[str] = "defect"
    title: ClassVar[str] = "The service has a defect"

    def __init__(self, detail: str, *, headers: dict[str, str] | None = None, **members: Any) -> None:
        super().__init__(detail)
        self.detail = detail if len(detail) <= MAX_DETAIL else f"{detail[:MAX_DETAIL]}..."
        self.headers = headers or {}
        self.members = members

    def document(self) -> dict[str, Any]:
        """The problem as JSON."""
        return {
            "type": f"urn:chimera-tuner:problem:{self.slug}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            **self.members,
        }


class MalformedBodyProblem(Problem):
    """The body is not JSON, nested too deep, or holds what cannot be stored."""

    status, slug, title = 400, "malformed-body", "The body cannot be read"


class UnauthorizedProblem(Problem):
    """The request needs a key, or the one it has is not valid."""

    status, slug, title = 401, "unauthorized", "A key is needed"

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": 'Bearer realm="chimera"'})


class ForbiddenProblem(Problem):
    """The request comes from another host or origin, or its key does not allow it."""

    status, slug, title = 403, "forbidden", "The request is refused"


class NotFoundProblem(Problem):
    """There is no such thing."""

    status, slug, title = 404, "not-found", "Not found"


class NotAllowedProblem(Problem):
    """The address does not take this method."""

    status, slug, title = 405, "method-not-allowed", "The method is not allowed here"


class ConflictProblem(Problem):
    """The state of things does not allow it, now or at all."""

    status, slug, title = 409, "conflict", "The current state does not allow this"


class StaleLeaseProblem(Problem):
    """The worker does not hold the job: another one does, or nobody needs it any more."""

    status, slug, title = 409, "stale-lease", "The lease is not held"


class TooLargeProblem(Problem):
    """The body is longer than the service reads."""

    status, slug, title = 413, "too-large", "The body is too large"


class WrongMediaTypeProblem(Problem):
    """The body is not declared to be JSON."""

    status, slug, title = 415, "unsupported-media-type", "The body must be JSON"


class InvalidProblem(Problem):
    """The request is understood and something in it is wrong."""

    status, slug, title = 422, "invalid", "The request is not valid"


class WorkerVersionProblem(Problem):
    """The worker and the service are of releases too far apart."""

    status, slug, title = 426, "worker-version", "The worker is of another version"

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"Upgrade": f"chimera-worker/{PROTOCOL}"})


class TooManyProblem(Problem):
    """The caller asked more than its share."""

    status, slug, title = 429, "too-many", "Too many requests"


class DefectProblem(Problem):
    """Something unexpected happened; it was logged under the id told."""


class UnavailableProblem(Problem):
    """Something the service needs is not there just now."""

    status, slug, title = 503, "unavailable", "The service cannot answer now"


class TimeoutProblem(Problem):
    """The answer would have come too late."""

    status, slug, title = 504, "timeout", "Answering takes too long"


BY_STATUS: dict[int, type[Problem]] = {
    kind.status: kind
    for kind in (
        MalformedBodyProblem,
        UnauthorizedProblem,
        ForbiddenProblem,
        NotFoundProblem,
        NotAllowedProblem,
        ConflictProblem,
        TooLargeProblem,
        WrongMediaTypeProblem,
        InvalidProblem,
        WorkerVersionProblem,
        TooManyProblem,
        DefectProblem,
        UnavailableProblem,
        TimeoutProblem,
    )
}

ReadingStatus = Literal[400, 401, 403, 404, 405, 409, 413, 415, 422, 426, 429, 500, 503, 504]


def responses(*statuses: ReadingStatus) -> dict[int | str, dict[str, Any]]:
    """OpenAPI entries of an operation that may answer so; any may answer 401, 403, 500, 503 and 504."""
    schema = {"$ref": "#/components/schemas/ProblemDocument"}
    return {
        status: {
            "description": BY_STATUS[status].title,
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status in sorted({*statuses, 401, 403, 500, 503, 504})
    }
