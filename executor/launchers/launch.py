"""What is to be launched? One document that the processes of a launch hand on to each other."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from executor.launchers.watchdog import Limits


@dataclass(frozen=True)
class Launch:
    """Ranks that run one function each."""

    body: str
    """`package.module:function`, called as function(spec, rank) with a Rank of `rank_process`; what it gives
    must be fit for JSON."""
    spec: dict[str, Any]
    """Handed to the body; fit for JSON."""
    ranks: int
    limits: Limits = field(default_factory=Limits)
    threads: int | None = 1
    """Of torch in each rank on a CPU; None leaves torch's own choice."""
    device: str = "cpu"
    apart: bool = False
    """Each rank was given devices of its own, whichever it sees."""
    memory_limit_bytes: int | None = None
    """For each rank, above what it uses before the body runs."""
    import_path: tuple[str, ...] = ()
    """Folders in which modules are looked for last."""
    preload: tuple[str, ...] = ()
    """Modules that take long to load and that every rank needs: ranks of one machine share them."""
    folder: str | None = None
    """In which the ranks of a cluster work, where their node has it: that of whoever asked."""
    logs: str | None = None
    """Folder in which a folder with the log of every rank is made for as long as the run takes; a temporary
    one unless given."""

    def to_json(self) -> str:
        """The document on one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Launch:
        """The launch of a document."""
        value = json.loads(text)
        limits = Limits(**value.pop("limits"))
        value |= {name: tuple(value[name]) for name in ("import_path", "preload")}
        return cls(**value, limits=limits)


class MemoryFile:
    """A file without a disk, open in this process, which the user's other processes find at its path."""

    def __init__(self, name: str, content: bytes = b"") -> None:
        self._descriptor = os.memfd_create(name)
        self.path = f"/proc/{os.getpid()}/fd/{self._descriptor}"
        Path(self.path).write_bytes(content)

    def read(self) -> bytes:
        """What is in it now."""
        return Path(self.path).read_bytes()

    def close(self) -> None:
        """Let go of it."""
        os.close(self._descriptor)


def read_launch(path: str) -> Launch:
    """The launch that a memory file holds."""
    return Launch.from_json(Path(path).read_bytes())
