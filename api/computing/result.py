"""What comes out of a computation? The bytes of an answer, and a few facts about it."""

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Result:
    """An answer as it is sent or stored, which whoever passes it on need not read."""

    content: bytes
    facts: dict[str, Any] = field(default_factory=dict)
    """What is counted or logged of it."""

    def document(self) -> Any:
        """The content, parsed."""
        return json.loads(self.content)


def as_bytes(document: Any) -> bytes:
    """The bytes that an answer of this document has; raises ValueError for NaN and infinities."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
