"""How does a log or a trace travel? Deflated, and cut to a cap: it must not keep a result from arriving."""

import base64
import binascii
import zlib
from typing import Annotated, Literal, Self

from pydantic import Field

from profiles.document import Count, Part
from tuner.errors import RequestError

LARGEST_BYTES = 400_000
"""Of one attachment, deflated: four of them and a profile fit into a request body."""
MOST_ATTACHMENTS = 4
"""Of one finish."""
LARGEST_INFLATED_BYTES = 50_000_000


class Attachment(Part):
    """A log or a trace of a job. Text longer than the cap has lost its beginning."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,59}$")]
    media_type: Literal["text/plain", "application/json"] = "text/plain"
    size_bytes: Count
    """Before it was cut and deflated."""
    cut: bool = False
    content: Annotated[str, Field(max_length=(LARGEST_BYTES + 2) // 3 * 4)]
    """Base 64 of the zlib stream."""

    @classmethod
    def pack(cls, name: str, text: str, *, most_bytes: int = LARGEST_BYTES) -> Self | None:
        """At most `most_bytes`, deflated: a log that is too long loses its beginning, halved until it fits.

        A document (`name` ends in .json) is worth nothing without its beginning: None when it is too long.
        """
        raw = text.encode("utf-8", "replace")
        kept, whole = raw, name.endswith(".json")
        while len(packed := zlib.compress(kept, level=6)) > most_bytes:
            if whole:
                return None
            kept = kept[len(kept) - len(kept) // 2 :]
        return cls(
            name=name,
            media_type="application/json" if whole else "text/plain",
            size_bytes=len(raw),
            cut=len(kept) < len(raw),
            content=base64.b64encode(packed).decode("ascii"),
        )

    def deflated(self) -> bytes:
        """The zlib stream; raises RequestError when it is none, or would fill the memory of who reads it."""
        try:
            packed = base64.b64decode(self.content, validate=True)
            stream = zlib.decompressobj()
            size = len(stream.decompress(packed, LARGEST_INFLATED_BYTES + 1))
        except (binascii.Error, zlib.error) as error:
            raise RequestError(
                f"the attachment {self.name} is no base 64 of a zlib stream: {error}"
            ) from None
        if size > LARGEST_INFLATED_BYTES or not stream.eof or stream.unused_data:
            raise RequestError(
                f"the attachment {self.name} is not one whole zlib stream of at most "
                f"{LARGEST_INFLATED_BYTES:,} bytes: cut the log"
            )
        return packed
