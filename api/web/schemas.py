"""Which documents go over the wire? Their shapes, for OpenAPI and clients; handlers build plain JSON."""

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from api.access.keys import Scope
from tuner.job_documents import JobEntry, WorkerEntry
from tuner.plan import Plan

Item = TypeVar("Item")


class Message(BaseModel):
    """A document that the service sends; later versions may add keys."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class PlanAnswer(Plan):
    """A plan, and how long the search took."""

    search_s: float


class Page(Message, Generic[Item]):
    """A piece of a list."""

    items: list[Item]
    next: str | None
    """The cursor of the page after this one; None on the last."""


class CountedPage(Page[Item], Generic[Item]):
    """A piece of a list whose length is known."""

    total: int


class TimelineDocument(Message):
    """An iteration, simulated or recorded: columns of numbers, times in seconds, operations rank by rank."""

    version: int
    schedule: str
    depth: int
    pipes: int
    stages: int
    chunks: int
    micro_batches: int
    iterations: int
    makespan: float
    kinds: list[str]
    """What the numbers in `operations.kind` mean."""
    operations: dict[str, list[float]]
    """Columns rank, start, end, kind, pipe, stage, micro_batch, half and live."""
    collectives: dict[str, list[float]]
    """Columns rank, start, end and group, with an entry for each rank that takes part."""
    critical_path: list[int]
    """Which operations decide the makespan; empty where it was recorded."""
    parts: int
    """How many backwards share a micro-batch."""
    memory: dict[str, int | list[int]] | None
    """`capacity_bytes` of a device; `always_bytes` and `peak_bytes` of each rank; `kept_bytes` that a
    micro-batch keeps of each stage from its forward to its backward. None where that is not known."""


class DocumentEntry(Message):
    """A stored document in a list; `id` is the SHA-256 of its canonical text."""

    id: str
    name: str
    created_by: str
    created_at: datetime
    links: dict[str, str]


class StoredDocumentMessage(DocumentEntry):
    """A stored document with its content."""

    document: dict[str, Any]


class DocumentPage(Page[DocumentEntry]):
    """A piece of the list of documents of a kind."""


class CheckPage(Page[StoredDocumentMessage]):
    """A piece of the checks of models, newest first."""


class Catalogue(Message):
    """What a request can name, with a few facts about each."""

    models: list[dict[str, Any]]
    accelerators: list[dict[str, Any]]
    clusters: list[dict[str, Any]]
    schedules: list[dict[str, Any]]
    export_formats: list[dict[str, Any]]


class Health(Message):
    """The process runs."""

    status: Literal["ok"]


class Readiness(Message):
    """The process can answer."""

    status: Literal["ready"]
    database: str
    """The revision of the schema."""


class JobPage(Page[JobEntry]):
    """A piece of the list of jobs, newest first."""


class WorkerPage(Page[WorkerEntry]):
    """A piece of the list of workers, newest first."""


class KeyRequest(BaseModel):
    """A key to be made."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)

    name: Annotated[str, Field(min_length=1, max_length=200)]
    """What the key is for, such as the host or script that uses it."""
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=4)]
    owner: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Who owns what is made with it; by default who makes the key."""


class KeyEntry(Message):
    """A key, without its secret."""

    id: str
    name: str
    owner: str
    scopes: list[Scope]
    created_by: str
    created_at: datetime
    last_used_at: datetime | None
    """To the minute."""
    revoked_at: datetime | None


class NewKey(KeyEntry):
    """A key as it is told once."""

    key: str | None
    """The secret; None when the same request is repeated, for it is not kept."""


class KeyPage(Page[KeyEntry]):
    """A piece of the list of keys, newest first."""


class AuditEntryMessage(Message):
    """Something that was changed, or refused."""

    id: str
    at: datetime
    owner: str
    """Of the key; `local` without one, `nobody` where none was known."""
    key_id: str | None
    action: str
    """The operation, as this document names it; also log_in and log_out."""
    target: str | None
    """The id of what was made, changed or ended."""
    status: int
    """Of the answer: 401 and 403 were refused, anything else was done."""
    address: str
    request_id: str | None
    """As the log of the service has it."""


class AuditPage(Page[AuditEntryMessage]):
    """A piece of the log of changes, newest first."""
