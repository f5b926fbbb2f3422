"""What does the service tell about jobs and workers? The documents of GET /v1/jobs and /v1/workers."""

from datetime import datetime
from typing import Any, Literal

from tuner.messages import DeviceGroup, FromService, JobKind, JobStatus


class Requirements(FromService):
    """What a worker must have to do a job."""

    devices: int
    """Accelerators of one kind; 0 needs none."""
    accelerator: str | None
    """Their data sheet; None takes any."""
    memory_bytes: int
    """Of each, at least."""


class JobEntry(FromService):
    """A job in a list."""

    id: str
    kind: JobKind
    status: JobStatus
    waiting_for: str | None
    """What a queued job waits for, in words."""
    priority: int
    """The highest is done first; of equal ones the oldest."""
    pool: str
    requirements: Requirements
    attempts: int
    max_attempts: int
    worker: str | None
    """Who holds the lease, or held the last one."""
    study_id: str | None
    progress: dict[str, Any] | None
    """What the last heartbeat told."""
    error: dict[str, Any] | None
    """Why the last attempt failed: message, evidence, attempt and worker."""
    created_by: str
    cancel_requested_at: datetime | None
    """When a running job was cancelled; its worker learns it with the next heartbeat."""
    lease_expires_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime
    links: dict[str, str]


class HistoryEntry(FromService):
    """Something that happened to a job."""

    event: Literal[
        "queued",
        "claimed",
        "lease_expired",
        "attempt_failed",
        "released",
        "cancel_requested",
        "done",
        "failed",
        "cancelled",
    ]
    at: datetime
    attempt: int
    worker: str | None
    details: dict[str, Any] | None


class AttachmentEntry(FromService):
    """A log or a trace of an attempt; `link` gives its content."""

    attempt: int
    name: str
    media_type: str
    size_bytes: int
    """Before it was cut."""
    cut: bool
    """Whether the beginning is missing."""
    link: str


class JobDocument(JobEntry):
    """A job with all that is known of it."""

    payload: dict[str, Any]
    """What the worker is asked (`tuner.assignments.ASSIGNMENTS`)."""
    result: dict[str, Any] | None
    """What it answered; of a profile_model job {"profile": id}."""
    history: list[HistoryEntry]
    attachments: list[AttachmentEntry]


class WorkerEntry(FromService):
    """A worker that asked for jobs."""

    id: str
    name: str
    version: str
    kinds: list[JobKind]
    pools: list[str]
    devices: list[DeviceGroup]
    software: dict[str, str]
    owner: str
    status: Literal["connected", "silent"]
    jobs: list[str]
    """Those it holds now."""
    first_seen_at: datetime
    last_seen_at: datetime
