"""/v1/profiles, /v1/clusters, /v1/measurements: documents found by the SHA-256 of their content."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse

from api.access.auth import READING, Submitter
from api.documents import store as documents
from api.service import BaseDependency, ServiceDependency
from api.storage.tables import DocumentKind
from api.web.bodies import BodyDependency
from api.web.idempotency import KeyHeader, Once
from api.web.openapi import json_body
from api.web.paging import DocumentCursor, Limit
from api.web.problems import responses
from api.web.schemas import DocumentPage, StoredDocumentMessage

THERE = {"model": StoredDocumentMessage, "description": "The same document was there already."}
"""The answer 200 of a document that is stored again."""
DocumentId = Annotated[str, Path(max_length=100, description="SHA-256 of the document's canonical text.")]


@dataclass(frozen=True)
class DocumentHandlers:
    """The handlers of one kind of document."""

    kind: DocumentKind

    def store(
        self,
        *,
        caller: Submitter,
        body: BodyDependency,
        service: ServiceDependency,
        base: BaseDependency,
        key: KeyHeader = None,
    ) -> JSONResponse:
        """Keep a document; the same content is kept once."""
        once = Once(service, caller.identity, key, body.fingerprint(f"POST /v1/{self.kind.value}"))
        answer = once.answer(
            lambda: documents.read_document(self.kind, body.value),
            lambda session, document: documents.store_document(
                session, document, kind=self.kind, caller=caller.owner, now=service.clock(), base=base
            ),
        )
        return JSONResponse(answer.body, status_code=answer.status, headers=answer.headers)

    def list_all(
        self,
        *,
        service: ServiceDependency,
        base: BaseDependency,
        cursor: DocumentCursor = None,
        limit: Limit = 50,
    ) -> JSONResponse:
        """List the documents, by id, without their content."""
        with service.database.reading() as session:
            found = documents.list_documents(session, self.kind, cursor=cursor, limit=limit, base=base)
        return JSONResponse(found)

    def read(
        self, *, document_id: DocumentId, service: ServiceDependency, base: BaseDependency
    ) -> JSONResponse:
        """Read a document."""
        with service.database.reading() as session:
            stored = documents.require_document(session, self.kind, document_id)
            body: dict[str, Any] = documents.entry(stored, base=base) | {"document": stored.document}
        return JSONResponse(body)


def routes(kind: DocumentKind) -> APIRouter:
    """The addresses of one kind of document."""
    router = reading_routes(kind)
    add_storing(router, kind)
    return router


def add_storing(router: APIRouter, kind: DocumentKind) -> None:
    """The address that takes documents of a kind."""
    schema = documents.SCHEMAS[kind]
    router.post(
        "",
        status_code=201,
        name=f"store_{_noun(kind)}",
        response_model=StoredDocumentMessage,
        responses=responses(400, 409, 413, 415, 422) | {200: THERE},
        openapi_extra=json_body(schema),
    )(DocumentHandlers(kind).store)


def reading_routes(kind: DocumentKind) -> APIRouter:
    """The addresses under which documents of a kind are listed and read."""
    router = APIRouter(prefix=f"/v1/{kind.value}", tags=["documents"])
    router.get(
        "",
        name=f"list_{_noun(kind)}",
        response_model=DocumentPage,
        responses=responses(422),
        dependencies=[READING],
    )(DocumentHandlers(kind).list_all)
    add_reading(router, kind)
    return router


def add_reading(router: APIRouter, kind: DocumentKind) -> None:
    """The address of one document."""
    router.get(
        "/{document_id}",
        name=f"read_{_noun(kind)}",
        response_model=StoredDocumentMessage,
        responses=responses(404, 422),
        dependencies=[READING],
    )(DocumentHandlers(kind).read)


def _noun(kind: DocumentKind) -> str:
    return documents.SCHEMAS[kind].kind_name.replace(" ", "_")


_OF_THEIR_OWN = {DocumentKind.CALIBRATION, DocumentKind.CHECK}

routers = tuple(routes(kind) for kind in DocumentKind if kind not in _OF_THEIR_OWN)
