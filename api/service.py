"""What does every handler work with? The settings, the database, the clock, and who is calling."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Depends, Request

from api.database import Database
from api.settings import Settings

LOCAL_CALLER = "local"
"""The owner of what is made without a key, by someone on this host."""


def now() -> datetime:
    """The present moment, in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Service:
    """One running service."""

    settings: Settings
    database: Database
    clock: Callable[[], datetime] = now


async def current_service(request: Request) -> Service:
    """The service that the request reached."""
    service: Service = request.app.state.service
    return service


async def current_caller() -> str:
    """The name under which things are owned and remembered."""
    return LOCAL_CALLER


async def current_base(request: Request) -> str:
    """The path under which clients see the service, without a slash at its end."""
    return str(request.scope.get("root_path", "")).rstrip("/")


ServiceDependency = Annotated[Service, Depends(current_service)]
CallerDependency = Annotated[str, Depends(current_caller)]
BaseDependency = Annotated[str, Depends(current_base)]
