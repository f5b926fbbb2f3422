"""How is the service called from afar? Typed calls over HTTP that ride out restarts of the service.

With `tuner.connection` all that the tuner has of a network and a clock; for `cli` and `executor`. Every call
can be repeated without doing anything twice: claims and finishes carry their token, what creates carries an
Idempotency-Key.
"""

import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from pydantic import ValidationError

from tuner.assignments import ProfileJobRequest
from tuner.attachments import Attachment
from tuner.client_errors import DefectError, RefusedError, UnreachableError, refusal
from tuner.connection import ANSWER_S as ANSWER_S  # noqa: PLC0414
from tuner.connection import connect, read_address, shown
from tuner.errors import RequestError
from tuner.job_documents import JobDocument, JobEntry, WorkerEntry
from tuner.messages import (
    MAX_WAIT_S,
    Claim,
    Finish,
    FinishReply,
    FromService,
    Heartbeat,
    HeartbeatReply,
    Job,
    Outcome,
    WorkerInventory,
    storable,
)

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0
_PASSING = frozenset({408, 425, 429, 502, 503, 504, *range(520, 525)})
"""What passes; those above 519 are said by proxies that do not reach the service."""

Answer = TypeVar("Answer", bound=FromService)


@dataclass(frozen=True)
class Pace:
    """How repeated calls are spaced; tests bring their own time."""

    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    share: Callable[[], float] = random.random
    """From 0 to 1: spreads the calls of many workers that lost the same service."""

    def pause_s(self, repetition: int) -> float:
        """Twice as long each time, up to LONGEST_PAUSE_S, and then between half and all of it."""
        return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(repetition, 30)) * (1 + self.share()) / 2


class ServiceClient:
    """Calls one service. Threads may share it: one works, another sends the heartbeats."""

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        patience_s: float = 120.0,
        pace: Pace | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`patience_s` is how long a call is repeated while nobody answers.

        Raises RequestError for what is no address, for a key that cannot be sent, and for proxies and
        certificates of the environment that cannot be used.
        """
        if key is not None and not (key.isascii() and key.isprintable() and key.strip() == key):
            raise RequestError(
                "the key is not one line of ASCII characters: copy it as `chimera key` gave it"
            )
        address = read_address(url, key=key)
        self._address, self.url = str(address).rstrip("/"), shown(address).rstrip("/")
        self._patience_s = patience_s
        self._pace = pace or Pace()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._http = connect(address, headers=headers, transport=transport)

    def __enter__(self) -> Self:
        """Use as a context, which closes the connections."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def claim(self, worker: WorkerInventory, *, wait_s: float = MAX_WAIT_S) -> Job | None:
        """Ask for a job, waiting up to `wait_s` seconds; None when there is none."""
        message = Claim(token=secrets.token_hex(16), worker=worker, wait_s=wait_s)
        answer = self.call(
            "POST", "/v1/jobs/claim", body=message.model_dump(mode="json"), answer_s=wait_s + ANSWER_S
        )
        return None if answer.status_code == httpx.codes.NO_CONTENT else self._read(Job, answer)

    def heartbeat(self, job: Job, *, progress: dict[str, Any] | None = None) -> HeartbeatReply:
        """Extend the lease, trying as long as it may still hold; raises StaleLeaseError when it is over."""
        message = Heartbeat(token=job.token, progress=progress)
        path, body = f"/v1/jobs/{job.id}/heartbeat", message.model_dump(mode="json")
        answer = self.call("POST", path, body=body, answer_s=job.lease_s, patience_s=job.lease_s)
        return self._read(HeartbeatReply, answer)

    def finish(self, job: Job, outcome: Outcome, *, attachments: Sequence[Attachment] = ()) -> FinishReply:
        """Report how the job ended; raises StaleLeaseError when another worker took it over."""
        message = Finish(token=job.token, outcome=outcome, attachments=tuple(attachments))
        body = storable(message.model_dump(mode="json"))
        answer = self.call("POST", f"/v1/jobs/{job.id}/finish", body=body)
        return self._read(FinishReply, answer)

    def profile_model(self, request: ProfileJobRequest) -> JobDocument:
        """Have a worker profile a model."""
        body = request.model_dump(mode="json", exclude_none=True)
        return self._read(JobDocument, self.call("POST", "/v1/profile-jobs", body=body))

    def job(self, job_id: str) -> JobDocument:
        """A job with everything that happened to it."""
        return self._read(JobDocument, self.call("GET", f"/v1/jobs/{job_id}"))

    def jobs(self, **filters: str) -> Iterator[JobEntry]:
        """All jobs, the newest first; `filters` are status, kind, pool, study_id and worker."""
        return self._pages(JobEntry, "/v1/jobs", filters)

    def cancel_job(self, job_id: str) -> JobDocument:
        """Stop a job."""
        return self._read(JobDocument, self.call("POST", f"/v1/jobs/{job_id}/cancel"))

    def workers(self) -> Iterator[WorkerEntry]:
        """All workers, the newest first."""
        return self._pages(WorkerEntry, "/v1/workers", {})

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, Any] | None = None,
        answer_s: float = ANSWER_S,
        patience_s: float | None = None,
        idempotency_key: str | None = None,
    ) -> httpx.Response:
        """Any call, repeated while nobody answers, for `patience_s` seconds from its start.

        A POST has one Idempotency-Key for all repetitions, a new one unless it is given. Raises RefusedError
        for a problem, UnreachableError when the patience is at its end.
        """
        headers = {"Idempotency-Key": idempotency_key or secrets.token_hex(16)} if method == "POST" else {}
        # NaN is no JSON: httpx refuses it here, before anything is sent.
        request = {"json": body} if body is not None else {}
        patience_s = self._patience_s if patience_s is None else patience_s
        until = self._pace.clock() + patience_s
        repetition = 0
        while True:
            why, told_s = "", 0.0
            try:
                answer = self._http.request(
                    method, self._address + path, params=params, headers=headers, timeout=answer_s, **request
                )
                if answer.is_success:
                    return answer
                why, told_s = self._passing(answer)
            except httpx.TransportError as error:
                why = f"{type(error).__name__}: {error}"
            pause_s = max(told_s, self._pace.pause_s(repetition))
            if self._pace.clock() + pause_s > until:
                raise UnreachableError(
                    f"the service at {self.url} did not answer for {patience_s:,.0f} s ({why[:300]}): "
                    f"{_next(why)}"
                )
            self._pace.sleep(pause_s)
            repetition += 1

    def _passing(self, answer: httpx.Response) -> tuple[str, float]:
        """Why a call should be repeated, and when at the earliest; raises for what will not pass."""
        told = answer.headers.get("retry-after", "")
        told_s = float(told) if told.isdecimal() and len(told) < 6 else 0.0
        if answer.status_code in _PASSING or (answer.status_code == httpx.codes.CONFLICT and told):
            return f"it answered {answer.status_code}", told_s
        raise self._refusal(answer)

    def _refusal(self, answer: httpx.Response) -> RefusedError | UnreachableError:
        try:
            problem = answer.json()
            detail, slug = str(problem["detail"]), str(problem["type"]).rpartition(":")[2]
        except (ValueError, KeyError, TypeError):
            return foreign(answer)
        if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
            return DefectError(f"the service at {self.url} answered {answer.status_code}: {detail}")
        return refusal(detail, status=answer.status_code, slug=slug)

    def _read(self, kind: type[Answer], answer: httpx.Response) -> Answer:
        try:
            return kind.model_validate_json(answer.content)
        except ValidationError:
            raise foreign(answer) from None

    def _pages(self, kind: type[Answer], path: str, filters: Mapping[str, str]) -> Iterator[Answer]:
        params: dict[str, Any] = {**filters, "limit": 500}
        while True:
            answer = self.call("GET", path, params=params)
            try:
                page = answer.json()
                items, following = [kind.model_validate(item) for item in page["items"]], page["next"]
            except (ValueError, KeyError, TypeError):
                raise foreign(answer) from None
            yield from items
            if following is None:
                return
            params["cursor"] = following


def _next(why: str) -> str:
    """What to look at when nobody answers."""
    if "CERTIFICATE_VERIFY_FAILED" in why:
        return "SSL_CERT_FILE names the file of the certificates that are trusted here"
    return "is it running, and is this its address?"


def foreign(answer: httpx.Response) -> UnreachableError:
    """What answered is not the service, or not at this address."""
    there = answer.next_request.url if answer.next_request is not None else None
    elsewhere = f", and points to {shown(there)}" if there is not None else ""
    return UnreachableError(
        f"what answered {answer.status_code} at {shown(answer.url)} is not this service, or of another "
        f"version{elsewhere}: set CHIMERA_URL to its address"
    )
