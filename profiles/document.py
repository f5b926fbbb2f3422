"""How is a document read, checked, written and fingerprinted?"""

import hashlib
import json
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from profiles.errors import MalformedDocumentError

MAX_DOCUMENT_BYTES = 8_000_000
MAX_NESTING = 64

Provenance = Literal["measured", "published", "estimated", "fitted", "extrapolated"]
Precision = Literal["float32", "bfloat16", "float16"]
Attention = Literal["flash", "eager"]

Name = Annotated[str, Field(min_length=1, max_length=200)]
Count = Annotated[int, Field(ge=0, le=10**18)]
PositiveCount = Annotated[int, Field(ge=1, le=10**18)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]
PositiveSeconds = Annotated[float, Field(gt=0, le=1e9)]
PositiveRate = Annotated[float, Field(gt=0, le=1e30)]
Fraction = Annotated[float, Field(gt=0, le=1)]


class Part(BaseModel):
    """A piece of a document: strict, closed, immutable, without NaN or infinity."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class Document(Part):
    """A document of its own, named by `kind` and `schema_version`."""

    kind_name: ClassVar[str] = "document"

    schema_version: Literal[1] = 1

    @classmethod
    def from_json(cls, text: str | bytes, *, name: str | None = None) -> Self:
        """Read `text`; raises MalformedDocumentError naming the first faults and where they are."""
        value = parse_json(text, name=name or cls.kind_name)
        return cls.from_value(value, name=name)

    @classmethod
    def from_value(cls, value: Any, *, name: str | None = None) -> Self:
        """Check parsed JSON; raises MalformedDocumentError naming the first faults and where they are."""
        try:
            return cls.model_validate_json(json.dumps(value))
        except ValidationError as error:
            raise MalformedDocumentError(describe_faults(error, name or cls.kind_name)) from None

    def to_json(self) -> str:
        """Canonical text: sorted keys, no spaces, so that equal documents have equal bytes."""
        return canonical_json(self.model_dump(mode="json", exclude_none=True))

    def fingerprint(self) -> str:
        """SHA-256 of the canonical text, in hex: the address of the document's content."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """Dump JSON with sorted keys and no spaces; refuses NaN and infinity."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def parse_json(text: str | bytes, *, name: str) -> Any:
    """Parse JSON of at most MAX_DOCUMENT_BYTES bytes and MAX_NESTING levels, without NaN or duplicate keys."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise MalformedDocumentError(
            f"{name} has {len(raw):,} bytes; at most {MAX_DOCUMENT_BYTES:,} are read. Is this the right file?"
        )
    depth = nesting(raw)
    if depth > MAX_NESTING:
        raise MalformedDocumentError(f"{name} is nested {depth:,} levels deep; at most {MAX_NESTING} are read")
    try:
        return json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except UnicodeDecodeError as error:
        raise MalformedDocumentError(f"{name} is not UTF-8 text (byte {error.start})") from None
    except (ValueError, RecursionError) as error:
        raise MalformedDocumentError(f"{name} is not valid JSON: {error}") from None


def nesting(raw: bytes) -> int:
    """Count the deepest nesting of brackets outside strings, without recursion."""
    depth = deepest = 0
    in_string = escaped = False
    for byte in raw:
        if in_string:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                in_string = False
        elif byte == 0x22:
            in_string = True
        elif byte in (0x5B, 0x7B):
            depth += 1
            deepest = max(deepest, depth)
        elif byte in (0x5D, 0x7D):
            depth -= 1
    return deepest


def describe_faults(error: ValidationError, name: str, *, most: int = 5) -> str:
    """One sentence for the first few faults of a pydantic error, with their places."""
    faults = error.errors(include_url=False, include_context=False)
    told = "; ".join(f"{_place(fault['loc'])}: {fault['msg']}" for fault in faults[:most])
    more = f" (and {len(faults) - most} more)" if len(faults) > most else ""
    return f"{name} is not valid: {told}{more}"


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location)[:200] or "document"


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise ValueError(f"the key {key[:80]!r} appears twice")
        seen[key] = value
    return seen
