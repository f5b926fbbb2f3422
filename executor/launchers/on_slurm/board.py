"""How do the tasks of a Slurm job and whoever waits for them talk? Over files in a folder that all share.

Every file is there before the job is submitted and is written over in place: on a network file system opening
a file shows what was written before, while a new file may stay unseen for a minute. Each holds one JSON
document; a reader that meets one half-written keeps what it knew.
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

Document = dict[str, Any]

_PULSE, _BEGIN, _LAUNCH = "pulse", "begin", "launch"


class Board:
    """The files of one launch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, Document] = {}

    def prepare(self, launch: str, ranks: int) -> None:
        """Make all files; `launch` is its JSON."""
        self._write(_LAUNCH, {"launch": launch})
        for name in (
            _PULSE,
            _BEGIN,
            *(f"{kind}-{rank}" for kind in ("said", "result") for rank in range(ranks)),
        ):
            self._write(name, {})

    def sweep_others(self, silent_s: float) -> None:
        """Remove folders beside this one whose keepers have been silent for so long, by the disk's clock."""
        now_s = self._path(_PULSE).stat().st_mtime
        for folder in self.folder.parent.glob("run-*"):
            with suppress(OSError):
                if now_s - Board(folder)._path(_PULSE).stat().st_mtime > silent_s:
                    shutil.rmtree(folder, ignore_errors=True)

    def launch(self) -> str:
        """What the tasks run."""
        text: str = self._read(_LAUNCH)["launch"]
        return text

    def beat(self, number: int) -> None:
        """Show the tasks that somebody waits for them."""
        self._write(_PULSE, {"number": number})

    def pulse(self) -> int:
        """The last beat; -1 once the folder is gone."""
        return int(self._read(_PULSE).get("number", 0)) if self.folder.is_dir() else -1

    def begin(self, address: str, port: int) -> None:
        """Let all ranks start."""
        self._write(_BEGIN, {"address": address, "port": port})

    def begun(self) -> Document:
        """Where the ranks meet; empty as long as they must wait."""
        return self._read(_BEGIN)

    def say(self, rank: int, said: Document) -> None:
        """What a place has said last; a result goes to a file of its own, once."""
        self._write(f"said-{rank}", {key: value for key, value in said.items() if key != "result"})

    def answer(self, rank: int, result: str) -> None:
        """What a rank has returned."""
        self._write(f"result-{rank}", {"result": result})

    def hear(self, rank: int) -> Document:
        """All that a place has said."""
        return self._read(f"said-{rank}") | self._read(f"result-{rank}")

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _write(self, name: str, document: Document) -> None:
        self._path(name).write_text(json.dumps(document), encoding="utf-8")

    def _read(self, name: str) -> Document:
        with suppress(OSError, ValueError):
            self._known[name] = json.loads(self._path(name).read_bytes())
        return self._known.get(name, {})
