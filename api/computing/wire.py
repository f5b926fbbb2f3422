"""What is said between the service and a process that computes for it? One JSON document and its answer.

The name of a function of this package and its arguments go out; facts and the bytes of the answer come back,
or the error. Nothing is pickled: what is read can only ever be data.
"""

import json
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

from api.computing.result import Result
from profiles.errors import DocumentError
from tuner.errors import TunerError

PACKAGE = "api.computing."


class ComputationError(Exception):
    """Something unexpected happened while computing; its notes have the traceback of the other process."""


def name_of(work: Callable[..., Result]) -> str:
    """Where a function of this package is found."""
    return f"{work.__module__.removeprefix(PACKAGE)}.{work.__name__}"


def pack(work: Callable[..., Result], *arguments: Any, **named: Any) -> bytes:
    """What asks for a computation."""
    return json.dumps([name_of(work), arguments, named]).encode()


def unpack(message: bytes) -> Callable[[], Result]:
    """What is asked for."""
    name, arguments, named = json.loads(message)
    module, _, function = name.rpartition(".")
    return partial(getattr(import_module(PACKAGE + module), function), *arguments, **named)


def tell(result: Result) -> tuple[bytes, bytes]:
    """What answers it."""
    return json.dumps({"facts": result.facts}).encode(), result.content


def tell_error(error: Exception) -> tuple[bytes, bytes]:
    """What answers it where there is no result; a traceback for what nobody expects."""
    told: dict[str, Any] = {"error": [kind.__name__ for kind in type(error).__mro__], "message": str(error)}
    if not isinstance(error, TunerError | DocumentError):
        told["traceback"] = traceback.format_exc()
    return json.dumps(told).encode(), b""


def read_answer(head: bytes, content: bytes) -> Result:
    """The result; raises the error that there was, as if it had happened here."""
    told = json.loads(head)
    if "error" in told:
        raise _error(told)
    return Result(content, told["facts"])


def _error(told: dict[str, Any]) -> Exception:
    known = {kind.__name__: kind for root in (TunerError, DocumentError) for kind in _tree(root)}
    for name in told["error"] if "traceback" not in told else ():
        if name in known:
            return known[name](told["message"])
    error = ComputationError(f"{told['error'][0]}: {told['message']}")
    error.add_note(told.get("traceback", ""))
    return error


def _tree(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _tree(child)
