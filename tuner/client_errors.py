"""What can go wrong in a call of the service.

CallError (a TunerError)
├── UnreachableError      nobody answered in time, or what answered is not this service
│   └── DefectError         the service answered that something in it went wrong (500)
└── RefusedError          the service answered with a problem
    ├── KeyRefusedError     the key is missing, unknown, revoked or of another scope (401, 403)
    ├── StaleLeaseError     the job is another worker's by now, or nobody's (409)
    └── VersionError        the worker is of a release that the service does not take (426)
"""

from tuner.errors import TunerError

_UNAUTHORIZED = 401


class CallError(TunerError):
    """A call of the service did not do what it should."""


class UnreachableError(CallError):
    """Nobody answered in time, or what answered is not this service; the message names the address."""


class DefectError(UnreachableError):
    """Something went wrong in the service, which may be over the next time."""


class RefusedError(CallError):
    """The service answered with a problem, whose detail is the message."""

    def __init__(self, detail: str, *, status: int, slug: str) -> None:
        super().__init__(detail)
        self.status = status
        self.slug = slug
        """The end of the problem's type, such as `not-found`."""


class KeyRefusedError(RefusedError):
    """The key is missing, unknown, revoked, or does not allow this."""


class StaleLeaseError(RefusedError):
    """The lease is over: stop working on the job."""


class VersionError(RefusedError):
    """The worker and the service are of releases too far apart."""


def refusal(detail: str, *, status: int, slug: str) -> RefusedError:
    """The error of a problem document."""
    by_slug = {"stale-lease": StaleLeaseError, "worker-version": VersionError}
    kind = KeyRefusedError if status in {401, 403} else by_slug.get(slug, RefusedError)
    if status == _UNAUTHORIZED:
        detail += "; commands take the key from CHIMERA_API_KEY"
    return kind(detail, status=status, slug=slug)
