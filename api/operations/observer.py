"""What was asked, by whom, how did it end and how long did it take? A line of the log, and counts."""

import asyncio
import logging
from time import perf_counter
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.operations import metrics
from api.web import request_record
from api.web.handlers import problem_response
from api.web.problems import UnavailableProblem
from api.web.request_record import HEADER

UNKNOWN = "unknown"
"""The route of addresses and the name of methods that are none: a flood of them makes no new series."""
CUT_OFF = UnavailableProblem(
    "the service stops, and this took longer than it waits: ask again", headers={"Retry-After": "5"}
)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})

logger = logging.getLogger("chimera.requests")


class Observer:
    """Middleware around all others: gives the request its id, and tells how it ended when all is sent."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, and tell."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        record, began = request_record.begin(scope), perf_counter()
        status: int | None = None

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[HEADER] = record.id
            await send(message)

        metrics.IN_PROGRESS.inc()
        try:
            await self.app(scope, receive, send_named)
        except asyncio.CancelledError:
            # The service stops, and has waited long enough. No traceback tells more.
            record.told = True
            if status is None:
                await problem_response(CUT_OFF)(scope, receive, send_named)
            _tell(scope, status="cut off", duration_s=perf_counter() - began)
            raise
        except Exception:
            # It is answered with 500 outside of all middleware, or was cut off in the middle.
            _tell(scope, status=str(status or 500), duration_s=perf_counter() - began)
            raise
        else:
            _tell(scope, status=str(status), duration_s=perf_counter() - began)
        finally:
            metrics.IN_PROGRESS.dec()


def _tell(scope: Scope, *, status: str, duration_s: float) -> None:
    method = scope["method"] if scope["method"] in _METHODS else UNKNOWN
    route = route_of(scope)
    parameters = scope.get("path_params") or {}
    request_record.note(study_id=parameters.get("study_id"), job_id=parameters.get("job_id"))
    metrics.count_request(method, route, status=status, duration_s=duration_s)
    level = _level(route, status)
    if logger.isEnabledFor(level):
        client = scope.get("client")
        told: dict[str, Any] = {
            "method": method,
            "route": route,
            "status": int(status) if status.isdecimal() else status,
            "duration_s": round(duration_s, 6),
            "client": client[0] if client else None,
        }
        message = "%s %s %s in %.1f ms"
        logger.log(level, message, method, route, status, 1e3 * duration_s, extra={"told": told})


def _level(route: str, status: str) -> int:
    if not status.isdecimal():
        return logging.WARNING
    return logging.DEBUG if route in _PROBES and status == "200" else logging.INFO


def route_of(scope: Scope) -> str:
    """The address with names in place of what was filled in; `unknown` where none was found."""
    return getattr(scope.get("route"), "path_format", None) or UNKNOWN
