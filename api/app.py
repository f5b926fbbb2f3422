"""How is the service put together? From its settings; `chimera serve` runs what this makes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from api.access.guard import Guard, check_bind
from api.access.key_files import key_from_file
from api.access.keys import Scope
from api.operations.figures import read_figures
from api.operations.inquiry import Inquiry
from api.operations.observer import Observer
from api.operations.readiness import Readiness
from api.routes import (
    answers,
    audit,
    calibrations,
    checks,
    crossovers,
    documents,
    events,
    jobs,
    keys,
    login,
    operations,
    pages,
    plans,
    studies,
    timelines,
    validations,
    work,
)
from api.service import Service
from api.settings import Settings
from api.storage.database import open_database
from api.upkeep import tidy_forever
from api.web.deadline import Deadlines
from api.web.etags import ETags
from api.web.handlers import install, problem_response
from api.web.openapi import DescribedApp
from api.web.variants import Variants

__all__ = ["check_bind", "create_app"]

DESCRIPTION = "How should this model be laid out on these accelerators, and why?"

COMPRESSED_FROM = 2_000
"""Bytes of an answer."""

ROUTERS = (
    plans.router,
    validations.router,
    crossovers.router,
    studies.router,
    answers.router,
    timelines.router,
    events.router,
    *documents.routers,
    calibrations.router,
    checks.router,
    # Before jobs: /v1/jobs/claim is no job.
    work.router,
    jobs.router,
    keys.router,
    audit.router,
    operations.router,
    login.router,
    pages.router,
)
ROUTES = [route for router in ROUTERS for route in router.routes]
"""Shared by all applications: what is included would be built once more for each, which takes 0.2 s."""
FIRST_PARTS = frozenset(route.path.split("/")[1] for route in ROUTES if isinstance(route, APIRoute))
"""Of the addresses, as `v1`."""
for route in ROUTES:
    if isinstance(route, APIRoute):
        route.operation_id = route.name


def create_app(
    settings: Settings | None = None, *, service: Service | None = None, with_worker: bool = False
) -> FastAPI:
    """The application; raises ServiceError when the address or the database does not allow it to start.

    `service` stands in for the one that the settings describe. `with_worker` says that one is started beside
    it, so that who asks for trials before that has come is not refused.
    """
    settings = settings or (service.settings if service else Settings.from_environment())
    check_bind(settings.host, keys_are_required=settings.keys_are_required)
    running = service or Service(
        settings=settings,
        database=open_database(settings.database_url, pool_size=settings.database_pool_size),
        expects_worker=with_worker,
    )
    if settings.bootstrap_key_file is not None:
        _make_first_key(running, Path(settings.bootstrap_key_file))
    app = DescribedApp(
        title="Chimera Tuner",
        description=DESCRIPTION,
        version=version("chimera-tuner"),
        lifespan=_lifespan(running),
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        middleware=[
            Middleware(Observer),
            Middleware(Variants, own=FIRST_PARTS),
            *_proxies(settings),
            Middleware(Guard, settings=settings),
            Middleware(Deadlines, seconds=settings.request_seconds, respond=problem_response),
            Middleware(GZipMiddleware, minimum_size=COMPRESSED_FROM, compresslevel=4),
            Middleware(ETags, compressed_from=COMPRESSED_FROM, kept=running.answers),
        ],
    )
    app.state.service = running
    app.state.readiness = Inquiry(Readiness(running))
    app.state.figures = Inquiry(partial(read_figures, running))
    install(app)
    app.router.routes += ROUTES
    return app


def _lifespan(running: Service) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """What goes on beside the requests, and ends with them."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        upkeep = asyncio.create_task(tidy_forever(running))
        running.computing.begin()
        yield
        running.bell.close()
        running.effort.close()
        running.computing.close()
        upkeep.cancel()
        with suppress(asyncio.CancelledError):
            await upkeep
        running.database.close()

    return lifespan


def _proxies(settings: Settings) -> list[Middleware]:
    """Who tells of clients and of https in their place; nobody unless somebody is named."""
    if settings.trusted_proxies is None:
        return []
    return [Middleware(ProxyHeadersMiddleware, trusted_hosts=settings.trusted_proxies)]


def _make_first_key(running: Service, path: Path) -> None:
    key_from_file(
        running.database, path, name="bootstrap", owner="admin", scopes=[Scope.ADMIN], now=running.clock()
    )
