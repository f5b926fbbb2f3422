"""What do the service and its workers say to each other? Claims, leases, heartbeats and outcomes, over HTTP.

A worker states its PROTOCOL in every message. The service takes the current one and the one before; what it
sends may gain keys, which workers ignore. A lease belongs to whoever holds its token.
"""

import json
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from profiles.document import Count, Name, Part, PositiveCount, describe_faults
from tuner.attachments import MOST_ATTACHMENTS, Attachment
from tuner.errors import ProtocolError, RequestError

PROTOCOL = 1
OLDEST_PROTOCOL = 1
"""The oldest that is understood: the one of the release before."""
MAX_WAIT_S = 30.0
_LONGEST_PROGRESS = 10_000

Identifier = Annotated[str, Field(pattern=r"^[0-9a-z]{26}$")]
Token = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
"""128 random bits."""
Line = Annotated[str, Field(min_length=1, max_length=4_000)]
Pool = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")]


class JobKind(StrEnum):
    """What a worker can be asked to do."""

    PROFILE_MODEL = "profile_model"
    PROFILE_LINKS = "profile_links"
    TRIAL = "trial"


class JobStatus(StrEnum):
    """Where a job stands; the last three are final."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINAL_STATUSES = frozenset({JobStatus.DONE, JobStatus.FAILED, JobStatus.CANCELLED})


class FromService(BaseModel):
    """What the service sends; a later version may add keys, which this one ignores."""

    model_config = ConfigDict(extra="ignore", frozen=True, use_attribute_docstrings=True)


class FromWorker(Part):
    """A message of a worker."""

    protocol: int = PROTOCOL


class DeviceGroup(Part):
    """Equal accelerators of a worker."""

    accelerator: Name
    """Name of its data sheet, such as `h100-80gb` or `cpu`."""
    count: PositiveCount
    memory_bytes: Count
    """Of each, as its driver reports it."""


class WorkerInventory(Part):
    """Who a worker is and what it has."""

    id: Identifier
    """Chosen by the worker when it starts."""
    name: Name
    """What people call it, such as its host."""
    version: Name
    """Of the distribution it runs."""
    kinds: Annotated[tuple[JobKind, ...], Field(min_length=1, max_length=20)] = tuple(JobKind)
    """The jobs it can do."""
    pools: Annotated[tuple[Pool, ...], Field(min_length=1, max_length=20)] = ("default",)
    """The pools it takes jobs from."""
    devices: Annotated[tuple[DeviceGroup, ...], Field(max_length=20)] = ()
    software: dict[str, Annotated[str, Field(max_length=200)]] = Field(default_factory=dict)
    """Versions by name, such as {"torch": "2.7.1"}."""


class Claim(FromWorker):
    """A worker asks for a job. Repeating a claim with its token gives the same job again."""

    token: Token
    """Becomes the token of the lease: new for every job, repeated when no answer was heard."""
    worker: WorkerInventory
    wait_s: Annotated[float, Field(ge=0, le=MAX_WAIT_S)] = 0.0
    """Seconds to wait for a job while there is none."""


class Job(FromService):
    """A job as the worker gets it, under a lease."""

    id: str
    kind: JobKind
    attempt: int
    """Counted from 1."""
    max_attempts: int
    token: str
    """Of the lease: every heartbeat and the finish carry it."""
    lease_s: float
    """The lease ends so long after the claim or the last heartbeat; then another worker may take over."""
    heartbeat_s: float
    """How often to send a heartbeat."""
    payload: dict[str, Any]
    """`tuner.assignments.read_assignment` gives it types."""
    study_id: str | None = None


class Heartbeat(FromWorker):
    """The worker is alive and works on the job."""

    token: Token
    progress: dict[str, Any] | None = None
    """What people see of it meanwhile; a few keys."""

    @field_validator("progress")
    @classmethod
    def _short(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if (size := len(json.dumps(value))) > _LONGEST_PROGRESS:
            raise ValueError(f"has {size:,} characters of JSON, at most {_LONGEST_PROGRESS:,} are kept")
        return value


class HeartbeatReply(FromService):
    """The lease is extended."""

    cancel: bool
    """Stop, and finish the job as cancelled."""
    lease_s: float
    heartbeat_s: float


def _say_which(schema: dict[str, Any]) -> None:
    """In JSON `status` is never left out: it says which of the outcomes it is."""
    schema["required"] = ["status", *schema.get("required", [])]


class _Ended(Part):
    """How a job can end."""

    model_config = ConfigDict(json_schema_extra=_say_which)


class Done(_Ended):
    """The job gave its result. Out of memory is a result too."""

    status: Literal["done"] = "done"
    result: dict[str, Any]
    """Checked by the kind of the job: `tuner.assignments.RESULTS`."""


class Failed(_Ended):
    """The attempt failed."""

    status: Literal["failed"] = "failed"
    message: Line
    """What happened, the numbers, what to do."""
    retry: bool = False
    """Whether another attempt may end otherwise."""
    evidence: dict[str, Any] = Field(default_factory=dict)
    """Such as rank, operation, exit code and signal."""


class Cancelled(_Ended):
    """The worker stopped because a heartbeat's reply told it to."""

    status: Literal["cancelled"] = "cancelled"


class Released(_Ended):
    """The worker stops before the job is done, and gives it back; this attempt does not count."""

    status: Literal["released"] = "released"
    reason: Line = "the worker was stopped"


Outcome = Annotated[Done | Failed | Cancelled | Released, Field(discriminator="status")]


class Finish(FromWorker):
    """How the job ended. Repeating it with the same token changes nothing and gets the same answer."""

    token: Token
    outcome: Outcome
    attachments: Annotated[tuple[Attachment, ...], Field(max_length=MOST_ATTACHMENTS)] = ()


class FinishReply(FromService):
    """Where the job stands now."""

    status: JobStatus
    repeated: bool = False
    """Whether the outcome had been written before."""


def storable(value: Any) -> Any:
    """JSON whose texts can be sent and stored; what cannot becomes a question mark.

    That is NUL and half of a surrogate pair, as in the log of a job that printed what is no text.
    """
    match value:
        case str():
            return value.replace("\0", "?").encode("utf-8", "replace").decode("utf-8")
        case dict():
            return {storable(key): storable(each) for key, each in value.items()}
        case list():
            return [storable(each) for each in value]
    return value


SomeMessage = TypeVar("SomeMessage", bound=FromWorker)


def read_message(kind: type[SomeMessage], value: Any) -> SomeMessage:
    """Check parsed JSON; raises ProtocolError before anything else, then RequestError naming the faults."""
    name = f"the {kind.__name__.lower()}"
    if not isinstance(value, dict):
        raise RequestError(f"{name} must be a JSON object")
    spoken = value.get("protocol", PROTOCOL)
    if type(spoken) is int and not OLDEST_PROTOCOL <= spoken <= PROTOCOL:
        older = spoken < OLDEST_PROTOCOL
        change = "upgrade chimera-tuner on the worker" if older else "upgrade the service first"
        raise ProtocolError(
            f"the worker speaks protocol {str(spoken)[:20]}, this service {OLDEST_PROTOCOL} to {PROTOCOL}: "
            f"{change}, so that both run the same release or neighbouring ones"
        )
    try:
        return kind.model_validate_json(json.dumps(value))
    except ValidationError as error:
        raise RequestError(describe_faults(error, name, value=value)) from None
