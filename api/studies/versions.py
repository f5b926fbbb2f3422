"""Has a study changed since a client saw it? One that has ended has not, which is cheap to say."""

from functools import cache
from importlib.metadata import version

from fastapi import Depends, Request
from sqlalchemy import select

from api.service import ServiceDependency
from api.storage.tables import FINAL, Study
from api.web.etags import require_news


def require_news_of_study(request: Request, study_id: str, service: ServiceDependency) -> None:
    """Raise AlreadyAnswered where this answer about a study that has ended is there; no plan is read."""
    with service.database.reading() as session:
        found = session.execute(
            select(Study.status, Study.updated_at).where(Study.id == study_id)
        ).one_or_none()
    if found is not None and found.status in FINAL:
        address = f"{request.scope.get('root_path', '')} {request.url.path}?{request.url.query}"
        version = f"{_release()} {address} {found.status} {found.updated_at.isoformat()}"
        require_news(request.headers, version, service.answers)


NEWS = Depends(require_news_of_study)
"""For routes under /v1/studies/{study_id}; after the one that lets the caller in."""


@cache
def _release() -> str:
    """What answers look like may change with it."""
    return version("chimera-tuner")
