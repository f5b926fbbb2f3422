"""/v1/studies/{id}/events: what happens to a study, as it happens, for whoever keeps listening."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from api.access.auth import READING, authenticate
from api.bell import wait_for_ring
from api.routes.studies import StudyId
from api.service import Service, ServiceDependency
from api.storage.tables import FINAL
from api.studies import store as studies
from api.studies.events import read_events
from api.studies.waiting import waiting_for
from api.web.problems import InvalidProblem, UnauthorizedProblem, responses

LOOKED_EVERY_S = 1.0
"""For what other processes write; what this one does rings the bell."""
SILENCE_S = 15.0
"""After so long a comment shows that the connection lives."""
BACK_IN_MS = 2_000
"""When the service stops, listeners come back after so long."""
CHECKED_EVERY_S = 10.0
"""Whether who listens may still do so: the key may have been revoked."""
_CALM_S = 0.2
"""A bell that rings all the time is not followed faster."""

LastSeen = Annotated[
    str | None,
    Header(alias="Last-Event-ID", max_length=20, description="The id of the last event that was seen."),
]

router = APIRouter(prefix="/v1/studies/{study_id}", tags=["answers"], dependencies=[READING])


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses=responses(404, 422)
    | {
        200: {"content": {"text/event-stream": {}}, "description": "Server-sent events."},
        204: {"description": "The study has ended, and every event was seen."},
    },
)
async def follow_study(
    *, request: Request, study_id: StudyId, service: ServiceDependency, last_seen: LastSeen = None
) -> Response:
    """Follow a study: its events from the first one, or after `Last-Event-ID`, until it has ended.

    `status`, `trial` and `note` have ids; `waiting`, which tells what the study waits for whenever that
    changes, has none. Comments are sent while nothing happens.
    """
    after = _number(last_seen)
    look = Look(service, study_id, after)
    first = await run_in_threadpool(look)
    if last_seen is not None and look.over and not first:
        return Response(status_code=204)
    return StreamingResponse(
        _stream(request, service, look, first=first),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


class Look:
    """What is new of a study each time it is called; raises NotFoundProblem where there is none."""

    def __init__(self, service: Service, study_id: str, after: int) -> None:
        self._service, self._study_id = service, study_id
        self._after, self._waits, self._began, self._told_end = after, "", False, False
        self.over = False
        """Whether the study has ended, and all is told."""

    def __call__(self) -> list[str]:
        """The new events, as they are sent."""
        with self._service.database.reading() as session:
            study = studies.look_for(session, self._study_id)
            if study is None and not self._began:
                raise studies.no_study(self._study_id)
            if study is None:
                # Somebody deleted it meanwhile.
                self.over = True
                return []
            self._began = True
            found = read_events(session, study.id, after=self._after)
            waits = waiting_for(session, [study], now=self._service.clock()).get(study.id, "")
            final, status = study.status in FINAL, study.status.value
        sent = [
            _event(entry.event, entry.data | {"at": entry.at.isoformat()}, number=entry.number)
            for entry in found
        ]
        self._after = found[-1].number if found else self._after
        if waits and waits != self._waits:
            sent.append(_event("waiting", {"status": status, "waiting_for": waits}))
        self._waits = waits
        self.over = final and not found
        if final and self._after == 0 and not self._told_end:
            # A study of a release that kept no events.
            self._told_end = True
            sent.append(_event("status", {"status": status}))
        return sent


async def _stream(request: Request, service: Service, look: Look, *, first: list[str]) -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    ringing = service.bell.listen()
    try:
        sent, spoke = first, loop.time()
        checked = spoke
        while True:
            for text in sent:
                yield text
                spoke = loop.time()
            if (look.over and not sent) or await request.is_disconnected():
                return
            if service.bell.closed:
                yield f"retry: {BACK_IN_MS}\n: the service stops, and tells the rest when it is back\n\n"
                return
            if loop.time() > checked + CHECKED_EVERY_S:
                checked = loop.time()
                try:
                    await run_in_threadpool(authenticate, request, service)
                except UnauthorizedProblem:
                    return
            if not sent:
                await wait_for_ring(ringing, most_s=LOOKED_EVERY_S)
                await asyncio.sleep(_CALM_S)
            if loop.time() > spoke + SILENCE_S:
                yield ": still here\n\n"
                spoke = loop.time()
            sent = await run_in_threadpool(look)
    finally:
        service.bell.leave(ringing)


def _event(event: str, data: dict[str, Any], *, number: int | None = None) -> str:
    lines = [f"id: {number}"] if number is not None else []
    return "\n".join([*lines, f"event: {event}", f"data: {json.dumps(data)}", "", ""])


def _number(last_seen: str | None) -> int:
    if last_seen is None or last_seen == "":
        return 0
    if not (last_seen.isascii() and last_seen.isdecimal() and len(last_seen) <= 9):
        raise InvalidProblem(f"Last-Event-ID: {last_seen[:20]!r} is no id of an event of this stream")
    return int(last_seen)
