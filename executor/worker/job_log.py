"""What did a job print? The end of it, however much that was."""

import os
from contextlib import suppress

KEPT_BYTES = 1_000_000
_PART_BYTES = 1 << 16


class JobLog:
    """A pipe of which the last KEPT_BYTES are kept, so that a job that prints for ever fills nothing."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        self._kept = bytearray()

    def began(self) -> None:
        """The job has its end of the pipe: let go of it here."""
        os.close(self.writing)

    def read(self) -> None:
        """Take what was printed meanwhile."""
        with suppress(BlockingIOError):
            while part := os.read(self.reading, _PART_BYTES):
                self._kept += part
                del self._kept[:-KEPT_BYTES]

    def close(self) -> None:
        """Take the rest, and let go."""
        self.read()
        os.close(self.reading)

    def text(self) -> str:
        """What is kept."""
        return self._kept.decode("utf-8", "replace")
