"""/clusters and /clusters/{name}: how devices are connected, in shipped clusters and in posted ones."""

import re
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import HTMLResponse

from api.access.auth import READING
from api.documents import store as documents
from api.documents.catalogue import catalogue
from api.reports.cluster import cluster_page
from api.service import BaseDependency, ServiceDependency
from api.storage.tables import DocumentKind
from api.web.pages import page
from api.web.paging import FINGERPRINT, DocumentCursor
from api.web.problems import NotFoundProblem
from profiles import library
from profiles.cluster import ClusterProfile

ON_A_PAGE = 50

router = APIRouter(include_in_schema=False)


@router.get("/clusters", dependencies=[READING])
def show_clusters(
    service: ServiceDependency, base: BaseDependency, cursor: DocumentCursor = None
) -> HTMLResponse:
    """The shipped clusters, and those that were posted, by id."""
    with service.database.reading() as session:
        found = documents.list_documents(
            session, DocumentKind.CLUSTER, cursor=cursor, limit=ON_A_PAGE, base=base
        )
    shipped = [library.load_cluster(entry["name"]) for entry in catalogue()["clusters"]]
    return page("clusters.html", base=base, shipped=shipped, posted=found, cursor=cursor)


@router.get("/clusters/{name}", dependencies=[READING])
def show_cluster(
    name: Annotated[str, Path(max_length=200)], service: ServiceDependency, base: BaseDependency
) -> HTMLResponse:
    """One cluster, by the name of a shipped one or the id of a posted one."""
    posted = None
    if name in library.names("clusters"):
        cluster = library.load_cluster(name)
    elif re.fullmatch(FINGERPRINT, name):
        with service.database.reading() as session:
            posted = documents.require_document(session, DocumentKind.CLUSTER, name)
            cluster = ClusterProfile.from_value(posted.document, name="the stored cluster")
    else:
        raise NotFoundProblem(f"there is no cluster {name[:80]!r}; /clusters lists them")
    return page("cluster.html", base=base, posted=posted, **cluster_page(cluster))
