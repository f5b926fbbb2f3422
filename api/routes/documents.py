"""/v1/profiles, /v1/clusters, /v1/measurements: documents found by the SHA-256 of their content."""

from typing import Annotated, Any

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse

from api import documents
from api.bodies import BodyDependency
from api.idempotency import KeyHeader, Once
from api.openapi import json_body
from api.paging import Cursor, Limit
from api.problems import responses
from api.schemas import DocumentPage, StoredDocumentMessage
from api.service import BaseDependency, CallerDependency, ServiceDependency
from api.tables import DocumentKind

DocumentId = Annotated[str, Path(max_length=100, description="SHA-256 of the document's canonical text.")]


def routes(kind: DocumentKind) -> APIRouter:
    """The addresses of one kind of document."""
    router = APIRouter(prefix=f"/v1/{kind.value}", tags=["documents"])
    noun = documents.SCHEMAS[kind].kind_name.replace(" ", "_")

    @router.post(
        "",
        status_code=201,
        name=f"store_{noun}",
        response_model=StoredDocumentMessage,
        responses=responses(400, 409, 413, 415, 422)
        | {200: {"model": StoredDocumentMessage, "description": "The same document was there already."}},
        openapi_extra=json_body(documents.SCHEMAS[kind]),
    )
    def store(
        *,
        body: BodyDependency,
        service: ServiceDependency,
        caller: CallerDependency,
        base: BaseDependency,
        key: KeyHeader = None,
    ) -> JSONResponse:
        """Keep a document; the same content is kept once."""
        once = Once(service, caller, key, body.fingerprint(f"POST /v1/{kind.value}"))
        answer = once.answer(
            lambda: documents.read_document(kind, body.value),
            lambda session, document: documents.store_document(
                session, document, kind=kind, caller=caller, now=service.clock(), base=base
            ),
        )
        return JSONResponse(answer.body, status_code=answer.status, headers=answer.headers)

    @router.get("", name=f"list_{noun}", response_model=DocumentPage, responses=responses(422))
    def list_all(
        *, service: ServiceDependency, base: BaseDependency, cursor: Cursor = None, limit: Limit = 50
    ) -> JSONResponse:
        """List the documents, by id, without their content."""
        with service.database.reading() as session:
            found = documents.list_documents(session, kind, cursor=cursor, limit=limit, base=base)
        return JSONResponse(found)

    @router.get(
        "/{document_id}",
        name=f"read_{noun}",
        response_model=StoredDocumentMessage,
        responses=responses(404, 422),
    )
    def read(document_id: DocumentId, service: ServiceDependency, base: BaseDependency) -> JSONResponse:
        """Read a document."""
        with service.database.reading() as session:
            stored = documents.require_document(session, kind, document_id)
            body: dict[str, Any] = documents.entry(stored, base=base) | {"document": stored.document}
        return JSONResponse(body)

    return router


routers = tuple(routes(kind) for kind in DocumentKind)
