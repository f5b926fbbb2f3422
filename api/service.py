"""What does every handler work with? The settings, the database, the clock, and a bell for who waits."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Annotated

from fastapi import Depends, Request

from api.access.effort import Effort
from api.access.rates import Rates
from api.bell import Bell
from api.processes.computing import Computing, Here
from api.processes.pool import Pool
from api.settings import Settings
from api.storage.database import Database
from api.studies.kept_timelines import KeptTimelines
from api.web.addresses import base_of
from api.web.etags import MOST_BYTES, SentAnswer
from api.web.kept import Kept


def now() -> datetime:
    """The present moment, in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Service:
    """One running service."""

    settings: Settings
    database: Database
    clock: Callable[[], datetime] = now
    bell: Bell = field(default_factory=Bell)
    """Rings when there may be a job to claim, or a study got on."""
    timelines: KeptTimelines = field(default_factory=KeptTimelines)
    """Those that were looked at lately."""
    answers: Kept[SentAnswer] = field(default_factory=partial(Kept, most_bytes=MOST_BYTES))
    """What was said lately about studies that have ended."""
    rates: Rates = field(default_factory=Rates)
    """What is left of callers' budgets for expensive calls."""
    expects_worker: bool = False
    """Whether a worker of the default pool was started beside the service, and will ask for jobs."""

    @cached_property
    def effort(self) -> Effort:
        """Who answers expensive calls, in turns."""
        return Effort(at_once=self.settings.calls_at_once, waiting=self.settings.work_waiting)

    @cached_property
    def computing(self) -> Computing:
        """Who computes what they ask for, and the steps of studies."""
        if self.settings.work_in == "threads":
            return Here()
        return Pool(at_once=self.settings.calls_at_once)

    def charge(self, kind: str) -> None:
        """Let whoever asks pay for an expensive call of this kind; raises TooManyProblem."""
        self.rates.charge(kind, per_minute=self.settings.rate_per_minute, burst=self.settings.rate_burst)


async def current_service(request: Request) -> Service:
    """The service that the request reached."""
    service: Service = request.app.state.service
    return service


async def current_base(request: Request) -> str:
    """The path under which clients see the service, without a slash at its end."""
    return base_of(request.scope)


ServiceDependency = Annotated[Service, Depends(current_service)]
BaseDependency = Annotated[str, Depends(current_base)]
