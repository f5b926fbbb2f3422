"""How are the faults that pydantic found told to people?"""

import reprlib
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

Location = tuple[int | str, ...]

_SELF_EXPLAINING = {"value_error", "extra_forbidden", "json_invalid", "missing"}
_MOST_READ = 200
_NO_OBJECT = {"dict_type", "model_type", "model_attributes_type"}


def describe_faults(error: ValidationError, name: str, *, value: Any = None, most: int = 5) -> str:
    """One sentence for the first few faults of a pydantic error, with their places and what was found.

    Places are paths into `value`, what was checked: the names that pydantic gives to the members of a union
    are no part of them. Faults of one place stand together. Of very many the first are read.
    """
    found: dict[Location, list[ErrorDetails]] = {}
    for fault in error.errors(include_url=False, include_context=False)[:_MOST_READ]:
        found.setdefault(_location(fault, value), []).append(fault)
    telling = {place: _telling(place, faults, found) for place, faults in found.items()}
    places = [_tell(place, faults) for place, faults in telling.items() if faults]
    told = "; ".join(places[:most])
    unread = max(0, error.error_count() - _MOST_READ)
    more = f" (and {len(places) - most + unread:,} more)" if len(places) > most else ""
    return f"{name} is not valid: {told}{more}"


def _location(fault: ErrorDetails, value: Any) -> Location:
    """The keys and positions of the fault's location that lead into `value`."""
    if value is None:
        return fault["loc"]
    location: list[int | str] = []
    for at, part in enumerate(fault["loc"], 1):
        missing = fault["type"] == "missing" and at == len(fault["loc"])
        if isinstance(value, dict) and part in value:
            location.append(part)
            value = value[part]
        elif isinstance(part, int) or missing:
            location.append(part)
            inside = isinstance(value, list | tuple) and isinstance(part, int) and part < len(value)
            value = value[part] if inside else None
    return tuple(location)


def _telling(
    place: Location, faults: list[ErrorDetails], found: dict[Location, list[ErrorDetails]]
) -> list[ErrorDetails]:
    """The faults without those that only say that another member of the union was not meant.

    Where there are faults inside a list, that it has too few entries only says that it was not read on.
    """
    meant = any(len(other) > len(place) and other[: len(place)] == place for other in found)
    others = [
        fault
        for fault in faults
        if not fault["type"].endswith("_type") and not (meant and fault["type"] == "too_short")
    ]
    if others:
        return others
    return [] if meant else faults


def _tell(place: Location, faults: list[ErrorDetails]) -> str:
    told = ", or ".join(dict.fromkeys(map(_message, faults)))
    first = faults[0]
    if first["type"] not in _SELF_EXPLAINING and not isinstance(first["input"], list | dict):
        told = f"{told}, not {reprlib.repr(first['input'])}"
    path = ".".join(map(str, place))[:200]
    return f"{_printable(path)}: {told}" if path else told


def _message(fault: ErrorDetails) -> str:
    if fault["type"] in _NO_OBJECT:
        return "Input should be an object"
    return fault["msg"].removeprefix("Value error, ")


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)
