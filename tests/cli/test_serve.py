"""Does `chimera serve` say where it listens, answer there, and end cleanly?"""

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from cli.serve import _bind
from tests.cli.command import Shell, finish, start

STUDY = {
    "model": "bert-48",
    "cluster": "piz-daint",
    "devices": 32,
    "mini_batch_size": 512,
    "schedules": "chimera",
}


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[tuple[str, str]]:
    """A running service and the line it printed; it must end with exit code 0 when asked to."""
    database = f"sqlite:///{folder}/chimera.db"
    process = start("serve", *arguments, "--database-url", database, cwd=folder)
    assert process.stdout
    try:
        line = process.stdout.readline()
        assert line, process.communicate()
        url = json.loads(line)["url"] if "--json" in arguments else line.split()[2]
        yield url, line
        process.send_signal(signal.SIGTERM)
        result = finish(process)
        assert (result.code, result.out) == (0, ""), result.err
        assert "Traceback" not in result.err
    finally:
        process.kill()
        process.communicate()


def test_a_service_on_a_free_port_says_where_it_is_and_plans(tmp_path: Path) -> None:
    """The example of --help: port 0, the address on stdout at once, and the same plan as the command's."""
    with serving(tmp_path, "--port", "0") as (url, line):
        assert line.startswith("Listening on http://127.0.0.1:")
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            assert client.get("/healthz").status_code == 200
            created = client.post("/v1/studies", json=STUDY)
            assert created.status_code == 201, created.text
            assert created.json()["plan"]["chosen"]["depth"] == 4
            report = client.get(f"/v1/studies/{created.json()['id']}/report")
            assert report.status_code == 200


def test_studies_outlive_the_service(tmp_path: Path) -> None:
    """What was posted to one process is there in the next; each told programs its address as one document."""
    with serving(tmp_path, "--port", "0", "--json") as (url, line):
        assert url == f"http://127.0.0.1:{json.loads(line)['port']}"
        created = httpx.post(f"{url}/v1/studies", json=STUDY, trust_env=False, timeout=60).json()
    with serving(tmp_path, "--port", "0", "--json") as (url, _):
        found = httpx.get(f"{url}/v1/studies/{created['id']}", trust_env=False, timeout=60)
        assert found.json()["plan"] == created["plan"]


def test_an_interrupt_is_a_clean_end(tmp_path: Path) -> None:
    """Ctrl+C leaves with 0 and no trace."""
    process = start(
        "serve", "--port", "0", "--database-url", f"sqlite:///{tmp_path}/chimera.db", cwd=tmp_path
    )
    assert process.stdout
    url = process.stdout.readline().split()[2]
    assert httpx.get(f"{url}/healthz", trust_env=False, timeout=60).status_code == 200
    process.send_signal(signal.SIGINT)
    result = finish(process)
    assert result.code == 0, result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_answers_are_not_held_back(host: str) -> None:
    """Every accepted connection sends at once: Nagle's algorithm would cost each answer 40 ms."""
    with _bind(host, 0) as listener, socket.create_connection(listener.getsockname()[:2]):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_only_loopback_is_listened_on(chimera: Shell, host: str, tmp_path: Path) -> None:
    """Without keys nobody else is let in, and no database is made."""
    result = chimera(
        "serve", "--host", host, "--port", "0", "--database-url", f"sqlite:///{tmp_path}/chimera.db"
    )
    assert (result.code, result.out) == (2, "")
    assert host in result.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("port", ["-1", "65536", "http", "1e30"])
def test_a_port_that_is_none_is_refused(chimera: Shell, port: str) -> None:
    """The bound is named."""
    result = chimera("serve", "--port", port)
    assert result.code == 2
    assert "port" in result.err.lower()


def test_a_port_in_use_is_named_with_the_way_out(chimera: Shell, tmp_path: Path) -> None:
    """Somebody else listens there: exit code 3, and nothing is written."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = chimera("serve", "--port", port, "--database-url", f"sqlite:///{tmp_path}/chimera.db")
    assert result.code == 3
    assert port in result.err
    assert "--port 0" in result.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "code"),
    [("mysql://localhost/chimera", 2), ("chimera.db", 2), ("sqlite:////proc/nowhere/chimera.db", 3)],
)
def test_a_database_that_cannot_be_used_is_told(chimera: Shell, url: str, code: int) -> None:
    """A wrong address is bad input, a database out of reach is not an answer."""
    for command in (("serve", "--port", "0"), ("database", "upgrade")):
        result = chimera(*command, "--database-url", url)
        assert (result.code, result.out) == (code, ""), result
        assert result.err.startswith("error: ")
