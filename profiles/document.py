"""How is a document read, checked, written and fingerprinted?"""

import hashlib
import json
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError

from profiles.errors import MalformedDocumentError
from profiles.faults import describe_faults as describe_faults  # noqa: PLC0414

# Documents are read and written through this module, so the limits and the JSON of it are found here too.
from profiles.json_text import MAX_DOCUMENT_BYTES as MAX_DOCUMENT_BYTES  # noqa: PLC0414
from profiles.json_text import canonical_json as canonical_json  # noqa: PLC0414
from profiles.json_text import parse_json as parse_json  # noqa: PLC0414
from profiles.json_text import without_mark

Provenance = Literal["measured", "published", "estimated", "fitted", "extrapolated"]
Precision = Literal["float32", "bfloat16", "float16"]
Attention = Literal["flash", "eager"]


class _FirstFault(FailFast):
    # Pydantic's own cannot stand in a union, whose members have to have a hash.
    __hash__ = object.__hash__


FIRST_FAULT = _FirstFault()
"""For lists that may be long: where an entry is wrong, those after it are not looked at."""
Name = Annotated[str, Field(min_length=1, max_length=200)]
Count = Annotated[int, Field(ge=0, le=10**18)]
PositiveCount = Annotated[int, Field(ge=1, le=10**18)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]
PositiveSeconds = Annotated[float, Field(ge=1e-15, le=1e9)]
PositiveRate = Annotated[float, Field(ge=1e-9, le=1e30)]
"""Bounded below too: what is divided by them must stay finite."""
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
        name = name or cls.kind_name
        value = parse_json(text, name=name)
        try:
            return cls.model_validate_json(without_mark(text))
        except ValidationError as error:
            raise MalformedDocumentError(describe_faults(error, name, value=value)) from None

    @classmethod
    def from_value(cls, value: Any, *, name: str | None = None) -> Self:
        """Check parsed JSON; raises MalformedDocumentError naming the first faults and where they are."""
        try:
            text = json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise MalformedDocumentError(f"{name or cls.kind_name} is not plain JSON: {error}") from None
        return cls.from_json(text, name=name)

    def to_json(self) -> str:
        """Canonical text: sorted keys, no spaces, so that equal documents have equal bytes."""
        return canonical_json(self.model_dump(mode="json", exclude_none=True))

    def fingerprint(self) -> str:
        """SHA-256 of the canonical text, in hex: the address of the document's content."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()
