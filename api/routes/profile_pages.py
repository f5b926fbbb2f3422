"""/profiles and /profiles/{id}: what layers take where they were measured."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import HTMLResponse

from api.access.auth import READING
from api.documents.profiles import list_profiles, studies_with
from api.documents.store import require_document
from api.reports.profile import kept_bytes, profile_page
from api.service import BaseDependency, ServiceDependency
from api.storage.tables import DocumentKind
from api.web.pages import page
from api.web.paging import DocumentCursor
from profiles.timings import Profile

ON_A_PAGE = 25

router = APIRouter(include_in_schema=False)


@router.get("/profiles", dependencies=[READING])
def show_profiles(
    *,
    request: Request,
    service: ServiceDependency,
    base: BaseDependency,
    text: Annotated[str, Query(max_length=200)] = "",
    cursor: DocumentCursor = None,
) -> HTMLResponse:
    """The profiles that are held, newest first."""
    with service.database.reading() as session:
        found = list_profiles(session, text=text.strip() or None, cursor=cursor, limit=ON_A_PAGE)
    address = service.settings.public_url or str(request.base_url).rstrip("/")
    return page("profiles.html", base=base, profiles=found, text=text, cursor=cursor, address=address)


@router.get("/profiles/{profile_id}", dependencies=[READING])
def show_profile(
    *,
    profile_id: Annotated[str, Path(max_length=100)],
    service: ServiceDependency,
    base: BaseDependency,
    first: Annotated[int, Query(ge=0, le=10_000)] = 0,
) -> HTMLResponse:
    """One profile; `first` is the type of layer with which the table begins."""
    with service.database.reading() as session:
        stored = require_document(session, DocumentKind.PROFILE, profile_id)
        profile = Profile.from_value(stored.document, name="the stored profile")
        users = studies_with(session, profile_id, limit=ON_A_PAGE)
    return page(
        "profile.html",
        base=base,
        id=stored.id,
        owner=stored.created_by,
        taken=f"{stored.created_at:%d %B %Y, %H:%M} UTC",
        users=users,
        most_users=ON_A_PAGE,
        kept_bytes=kept_bytes,
        **profile_page(profile, first=first),
    )
