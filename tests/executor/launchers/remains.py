"""What did a run leave behind? Processes that carry a mark, and files in a folder of their own."""

import os
import select
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

MARK = "CHIMERA_TEST_MARK"


@dataclass(frozen=True)
class Remains:
    """Looks for what carries one mark."""

    mark: str
    folder: Path

    def processes(self) -> dict[int, str]:
        """Commands of the processes but this one that carry the mark, by id."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with suppress(OSError):
                    if f"{MARK}={self.mark}".encode() in (entry / "environ").read_bytes():
                        found[int(entry.name)] = (
                            (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                        )
        return found

    def wait_for_end(self, within_s: float = 60.0) -> None:
        """Return once no process carries the mark; what is left then is seen by `found`."""
        deadline = time.monotonic() + within_s
        while (left := self.processes()) and time.monotonic() < deadline:
            for pid in left:
                with suppress(ProcessLookupError):
                    descriptor = os.pidfd_open(pid)
                    select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
                    os.close(descriptor)

    def found(self) -> list[str]:
        """Everything that should not be there."""
        files = [str(path) for path in self.folder.iterdir()]
        return [*self.processes().values(), *files]


def watch_remains(monkeypatch: object) -> Iterator[Remains]:
    """Mark what is started from now on, and give it a short folder for its files."""
    mark = uuid4().hex
    with tempfile.TemporaryDirectory(prefix="remains-", dir="/tmp") as folder:
        monkeypatch.setenv(MARK, mark)  # type: ignore[attr-defined]
        monkeypatch.setattr(tempfile, "tempdir", folder)  # type: ignore[attr-defined]
        monkeypatch.setenv("TMPDIR", folder)  # type: ignore[attr-defined]
        yield Remains(mark, Path(folder))
