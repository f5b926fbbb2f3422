"""Does `chimera serve` end what goes on when told to stop, within a bound, and at once when told twice?"""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from api.service import Service
from api.settings import Settings
from api.storage.database import open_database
from tests.api.conftest import TINY
from tests.api.work.factories import claim_of, make_key, worker
from tests.cli.command import finish, start
from tuner.messages import Claim

BODY = json.dumps(TINY).encode()


@contextmanager
def served(folder: Path, **settings: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running service and its address."""
    process = start(
        *("serve", "--port", "0", "--json", "--database-url", f"sqlite:///{folder}/chimera.db"),
        cwd=folder,
        environment=dict(os.environ) | settings,
    )
    assert process.stdout
    try:
        yield process, json.loads(process.stdout.readline())["url"]
    finally:
        process.kill()
        process.communicate()


@contextmanager
def half_a_request(url: str) -> Iterator[socket.socket]:
    """A connection on which the service reads a body that has not come yet."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        head = (
            f"POST /v1/plans HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(BODY)}\r\nExpect: 100-continue\r\n\r\n"
        )
        connection.sendall(head.encode())
        assert connection.recv(1_000).startswith(b"HTTP/1.1 100")
        yield connection


def wait_until_nobody_listens(url: str) -> None:
    """Return when the service takes no further connection."""
    address = urlsplit(url)
    while True:
        try:
            socket.create_connection((address.hostname, address.port), timeout=60).close()
        except OSError:
            return


def test_streams_and_waits_end_and_requests_are_answered_when_the_service_is_told_to_stop(
    tmp_path: Path,
) -> None:
    """Followers hear when to come back, workers that there is no job, and who was asking gets the answer."""
    with (
        served(tmp_path) as (process, url),
        httpx.Client(base_url=url, trust_env=False, timeout=60) as client,
    ):
        database = open_database(f"sqlite:///{tmp_path}/chimera.db")
        _, key = make_key(Service(Settings(), database), "work")
        database.close()

        def claim(message: Claim) -> httpx.Response:
            headers = {"Authorization": f"Bearer {key}"}
            return client.post("/v1/jobs/claim", json=message.model_dump(mode="json"), headers=headers)

        with ThreadPoolExecutor() as pool:
            claim(claim_of())
            study = client.post("/v1/studies", json=TINY | {"refine": {"trials": 1}}).json()
            waiting = pool.submit(claim, claim_of(worker(pools=("other",)), wait_s=30))
            with (
                client.stream("GET", f"/v1/studies/{study['id']}/events") as events,
                half_a_request(url) as half,
            ):
                told = events.iter_lines()
                assert next(told).startswith("id: 1")
                process.send_signal(signal.SIGTERM)
                assert "retry: 2000" in list(told)
                assert waiting.result().status_code == 204
                half.sendall(BODY)
                assert half.recv(1_000).startswith(b"HTTP/1.1 200")
        result = finish(process)
    assert (result.code, result.out) == (0, "")
    lines = [json.loads(line) for line in result.err.splitlines()]
    assert {line["status"] for line in lines if line.get("route") == "/v1/plans"} == {200}
    assert key not in result.err


def test_told_to_stop_as_soon_as_it_says_where_it_listens_it_ends_well(tmp_path: Path) -> None:
    """Who started it knows that it can be asked from then on."""
    for number in (signal.SIGTERM, signal.SIGINT):
        with served(tmp_path) as (process, _):
            process.send_signal(number)
            assert process.wait(timeout=60) == 0


def test_who_never_ends_asking_does_not_keep_the_service(tmp_path: Path) -> None:
    """After the bound the request is cut off, and the end is clean."""
    with served(tmp_path, CHIMERA_SHUTDOWN_SECONDS="1") as (process, url), half_a_request(url) as half:
        process.send_signal(signal.SIGTERM)
        answer = half.recv(10_000)
        result = finish(process)
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"Retry-After: 5" in answer.title()
    assert result.code == 0, result.err
    cut = [line for line in map(json.loads, result.err.splitlines()) if line.get("route") == "/v1/plans"]
    assert [line["status"] for line in cut] == ["cut off"]
    assert "Traceback" not in result.err


def test_who_asks_twice_does_not_wait(tmp_path: Path) -> None:
    """The second signal ends the process at once, with the exit code of that signal."""
    with served(tmp_path, CHIMERA_SHUTDOWN_SECONDS="3600") as (process, url), half_a_request(url):
        process.send_signal(signal.SIGTERM)
        wait_until_nobody_listens(url)
        process.send_signal(signal.SIGTERM)
        assert finish(process).code == 128 + signal.SIGTERM
