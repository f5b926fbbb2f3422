"""/models/{name}/history: a model over time."""

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import HTMLResponse

from api.access.auth import READING
from api.documents.history import read_history
from api.reports.history import history_page
from api.service import BaseDependency, ServiceDependency
from api.web.pages import page
from profiles import library

router = APIRouter(include_in_schema=False)


@router.get("/models/{name:path}/history", dependencies=[READING])
def show_history(
    name: Annotated[str, Path(max_length=200)], service: ServiceDependency, base: BaseDependency
) -> HTMLResponse:
    """Studies, trials, profiles and checks of the model of that name; 404 where nothing knows it."""
    with service.database.reading() as session:
        history = read_history(session, name)
        context = history_page(name, history)
    is_known = not history.is_empty or name in library.names("models")
    return page("history.html", base=base, status=200 if is_known else 404, **context)
