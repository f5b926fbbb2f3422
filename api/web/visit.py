"""Who makes the request that is being answered? What its way through the service finds out, for all on it."""

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class Visit:
    """A request, and who turned out to make it."""

    action: str = ""
    """The operation, as OpenAPI names it."""
    address: str = ""
    """The client's, as a trusted proxy tells it."""
    owner: str | None = None
    """Under which name things are made; None before anybody looked."""
    identity: str | None = None
    """The id of the key."""
    key_name: str | None = None
    """None for who has no key."""
    tag: str | None = None
    """Names the answer, where that is known before it is made."""
    request_id: str | None = None
    """As the log has it."""
    csrf_token: str | None = None
    """What pages send along; None where no session vouches for the visitor."""


_visit: ContextVar[Visit | None] = ContextVar("visit", default=None)


def begin_visit(visit: Visit) -> None:
    """Let everything that is done for this request find `visit`."""
    _visit.set(visit)


def current_visit() -> Visit:
    """The visit that is being answered; an empty one where no request is."""
    return _visit.get() or Visit()
