"""What does docs/rest.md promise each caller at each address? A row for every operation of the service."""

from dataclasses import dataclass
from itertools import count
from typing import Any

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from api.access.keys import Scope
from api.service import Service
from api.storage.identifiers import new_identifier
from api.storage.tables import Study, StudyStatus
from tests.api.work.factories import add_job

READ, SUBMIT, WORK, ADMIN, OPEN = Scope.READ, Scope.SUBMIT, Scope.WORK, Scope.ADMIN, None

ROWS: dict[str, tuple[Scope | None, int]] = {
    "DELETE /v1/keys/{key_id}": (ADMIN, 404),
    "DELETE /v1/studies/{study_id}": (SUBMIT, 204),
    "GET /": (READ, 200),
    "GET /assets/{digest}/{name}": (OPEN, 404),
    "GET /clusters": (READ, 200),
    "GET /clusters/{name}": (READ, 404),
    "GET /compare": (READ, 200),
    "GET /crossovers": (READ, 200),
    "GET /favicon.ico": (OPEN, 200),
    "GET /healthz": (OPEN, 200),
    "GET /login": (OPEN, 200),
    "GET /metrics": (READ, 200),
    "GET /models/{name:path}/history": (READ, 404),
    "GET /openapi.json": (OPEN, 200),
    "GET /parts/studies": (READ, 200),
    "GET /parts/workers": (READ, 200),
    "GET /profiles": (READ, 200),
    "GET /profiles/{profile_id}": (READ, 404),
    "GET /readyz": (OPEN, 200),
    "GET /studies/{study_id}": (READ, 200),
    "GET /studies/{study_id}/state": (READ, 200),
    "GET /v1/audit": (ADMIN, 200),
    "GET /v1/calibrations": (READ, 200),
    "GET /v1/calibrations/{document_id}": (READ, 404),
    "GET /v1/catalogue": (READ, 200),
    "GET /v1/checks": (READ, 200),
    "GET /v1/checks/{document_id}": (READ, 404),
    "GET /v1/clusters": (READ, 200),
    "GET /v1/clusters/{document_id}": (READ, 404),
    "GET /v1/jobs": (READ, 200),
    "GET /v1/jobs/{job_id}": (READ, 200),
    "GET /v1/jobs/{job_id}/attachments/{attempt}/{name}": (READ, 404),
    "GET /v1/keys": (ADMIN, 200),
    "GET /v1/keys/{key_id}": (ADMIN, 404),
    "GET /v1/measurements": (READ, 200),
    "GET /v1/measurements/{document_id}": (READ, 404),
    "GET /v1/profiles": (READ, 200),
    "GET /v1/profiles/{document_id}": (READ, 404),
    "GET /v1/studies": (READ, 200),
    "GET /v1/studies/{study_id}": (READ, 200),
    "GET /v1/studies/{study_id}/candidates": (READ, 409),
    "GET /v1/studies/{study_id}/events": (READ, 200),
    "GET /v1/studies/{study_id}/export/{export_format}": (READ, 409),
    "GET /v1/studies/{study_id}/rejected": (READ, 409),
    "GET /v1/studies/{study_id}/report": (READ, 409),
    "GET /v1/studies/{study_id}/timeline": (READ, 409),
    "GET /v1/studies/{study_id}/trace": (READ, 409),
    "GET /v1/studies/{study_id}/trials": (READ, 200),
    "GET /v1/studies/{study_id}/{table}.csv": (READ, 409),
    "GET /v1/workers": (READ, 200),
    "GET /workers": (READ, 200),
    "POST /login": (OPEN, 415),
    "POST /logout": (OPEN, 415),
    "POST /v1/calibrations": (ADMIN, 422),
    "POST /v1/calibrations/fit": (ADMIN, 422),
    "POST /v1/checks": (SUBMIT, 422),
    "POST /v1/clusters": (SUBMIT, 422),
    "POST /v1/crossovers": (SUBMIT, 422),
    "POST /v1/jobs/claim": (WORK, 422),
    "POST /v1/jobs/{job_id}/cancel": (SUBMIT, 200),
    "POST /v1/jobs/{job_id}/finish": (WORK, 422),
    "POST /v1/jobs/{job_id}/heartbeat": (WORK, 422),
    "POST /v1/keys": (ADMIN, 422),
    "POST /v1/measurements": (SUBMIT, 422),
    "POST /v1/plans": (SUBMIT, 422),
    "POST /v1/profile-jobs": (SUBMIT, 422),
    "POST /v1/profiles": (SUBMIT, 422),
    "POST /v1/studies": (SUBMIT, 422),
    "POST /v1/studies/{study_id}/cancel": (SUBMIT, 200),
    "POST /v1/validations": (SUBMIT, 422),
}
"""The scope that is needed, and the status for who has it, with the body {} and things of one's own."""

HOLDERS = {
    READ: {"read", "submit", "admin"},
    SUBMIT: {"submit", "admin"},
    WORK: {"work", "admin"},
    ADMIN: {"admin"},
}
OWNED = {
    "DELETE /v1/studies/{study_id}",
    "POST /v1/jobs/{job_id}/cancel",
    "POST /v1/studies/{study_id}/cancel",
}
"""What only the owner does, and an admin."""
BODILESS = OWNED | {"DELETE /v1/keys/{key_id}"}
"""What changes something and reads no body."""
FORMS = {"POST /login": 401, "POST /logout": 303}
"""What takes forms of pages, and the status for one that holds nothing."""
SAFE = ("GET ", "HEAD ")


def operations(app: FastAPI) -> set[str]:
    """Every method and address of the service."""
    contexts = iter_route_contexts(app.routes)
    return {f"{method} {each.path}" for each in contexts for method in set(each.methods or ()) - {"HEAD"}}


@dataclass
class Things:
    """What requests are about: each gets one of its own, for it may be gone afterwards."""

    service: Service
    numbers: Any = None

    def __post_init__(self) -> None:
        self.numbers = count()

    def address(self, operation: str, *, owner: str) -> str:
        """The address of an operation on something of `owner`."""
        path = operation.partition(" ")[2]
        places = {
            "document_id": "x",
            "key_id": "x",
            "profile_id": "x",
            "export_format": "env",
            "attempt": "1",
        }
        places |= {"digest": "x", "name": "a.log", "table": "candidates"}
        if "{study_id}" in path:
            places["study_id"] = self._study(owner, ended=operation.startswith(SAFE))
        if "{job_id}" in path:
            places["job_id"] = add_job(self.service, created_by=owner)
        return path.replace(":path", "").format(**places)

    def _study(self, owner: str, *, ended: bool) -> str:
        now = self.service.clock()
        status = StudyStatus.FAILED if ended else StudyStatus.QUEUED
        row = Study(
            id=new_identifier(now), created_by=owner, status=status, model="tiny-gpt", cluster="local-cpu",
            devices=2, mini_batch_size=8, request={"devices": 2}, due=False, created_at=now, updated_at=now,
        )  # fmt: skip
        with self.service.database.writing() as session:
            session.add(row)
            return row.id
