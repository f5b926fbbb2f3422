"""What of an address is the service's own? The path below the one that a proxy shows it under."""

from starlette.types import Scope


def base_of(scope: Scope) -> str:
    """The path under which clients see the service, without a slash at its end."""
    return str(scope.get("root_path", "")).rstrip("/")


def path_below(scope: Scope) -> str:
    """The path of a request below that one."""
    return str(scope.get("path", "")).removeprefix(base_of(scope))
