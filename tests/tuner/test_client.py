"""Does the client ride out a service that is away, and tell what it is refused?"""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from tuner.client import LONGEST_PAUSE_S, Pace, ServiceClient
from tuner.client_errors import (
    KeyRefusedError,
    RefusedError,
    StaleLeaseError,
    UnreachableError,
    VersionError,
)
from tuner.connection import is_direct
from tuner.errors import RequestError
from tuner.messages import Done, Failed, Job, JobKind, WorkerInventory

JOB = Job(
    id="0" * 26, kind=JobKind.TRIAL, attempt=1, max_attempts=3, token="0" * 32, lease_s=8, heartbeat_s=1,
    payload={},
)  # fmt: skip
WORKER = WorkerInventory(id="0" * 26, name="bench", version="0.1.0")
BEAT = {"cancel": False, "lease_s": 8, "heartbeat_s": 1}


class Script(ThreadingHTTPServer):
    """A server that gives the answers it was told, one a request, and remembers what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.answers: list[Any] = []
        self.asked: list[tuple[str, dict[str, str], Any]] = []

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}"


class Answering(BaseHTTPRequestHandler):
    """One request."""

    def do_POST(self) -> None:
        """Answer as the script says; "hang up" ends the connection without a word."""
        script: Any = self.server
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        script.asked.append((self.path, dict(self.headers), json.loads(body) if body else None))
        answer = script.answers.pop(0)
        if answer == "hang up":
            self.close_connection = True
            return
        status, headers, document = answer
        text = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(text)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST  # noqa: N815

    def log_message(self, *_: Any) -> None:  # type: ignore[override]
        """Say nothing."""


def problem(status: int, slug: str, **headers: str) -> Any:
    """An answer that is a problem document."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, names, {"type": f"urn:chimera-tuner:problem:{slug}", "detail": f"about {slug}"}


@pytest.fixture
def script() -> Iterator[Script]:
    """A scripted server."""
    server = Script()
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


class Time:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def pace(self) -> Pace:
        """A pace in this time, with the longest of the random pauses."""
        return Pace(sleep=self.pauses.append, clock=lambda: sum(self.pauses), share=lambda: 1.0)


@pytest.fixture
def time() -> Time:
    """Time of the test's own."""
    return Time()


@pytest.fixture
def client(script: Script, time: Time) -> Iterator[ServiceClient]:
    """A client of the scripted server."""
    with ServiceClient(script.url, key="secret", patience_s=60, pace=time.pace()) as made:
        yield made


def test_a_call_is_repeated_until_it_is_answered(script: Script, client: ServiceClient, time: Time) -> None:
    """Whatever a restart looks like; pauses double, and Retry-After is heeded."""
    script.answers = [
        "hang up", problem(503, "unavailable"), problem(502, "x"),
        problem(503, "unavailable", Retry_After="5"), problem(409, "conflict", Retry_After="1"),
        (200, {}, BEAT),
    ]  # fmt: skip
    assert client.call("POST", "/v1/studies", body={"a": 1}).json() == BEAT
    assert time.pauses == [0.1, 0.2, 0.4, 5.0, 1.6]
    keys = {headers["Idempotency-Key"] for _, headers, _ in script.asked}
    assert len(keys) == 1
    assert {headers["Authorization"] for _, headers, _ in script.asked} == {"Bearer secret"}


def test_a_claim_keeps_its_token_while_it_is_repeated(script: Script, client: ServiceClient) -> None:
    """So that an answer that was lost is given again; the next claim has another one."""
    script.answers = ["hang up", (200, {}, JOB.model_dump(mode="json")), (204, {}, b"")]
    assert client.claim(WORKER, wait_s=1) == JOB
    assert client.claim(WORKER, wait_s=1) is None
    first, second, third = (body["token"] for _, _, body in script.asked)
    assert first == second != third
    assert script.asked[0][2]["protocol"] == 1


def test_patience_ends(script: Script, client: ServiceClient, time: Time) -> None:
    """After a minute here, in pauses of at most two seconds; the message names the address."""
    script.answers = ["hang up"] * 100
    with pytest.raises(UnreachableError, match=rf"{script.url} did not answer for 60 s"):
        client.finish(JOB, Done(result={}))
    assert 55 < sum(time.pauses) <= 60
    assert max(time.pauses) == LONGEST_PAUSE_S


def test_a_heartbeat_is_given_up_when_the_lease_is_over(
    script: Script, client: ServiceClient, time: Time
) -> None:
    """It would be refused anyway."""
    script.answers = ["hang up"] * 100
    with pytest.raises(UnreachableError, match="for 8 s"):
        client.heartbeat(JOB)
    assert sum(time.pauses) <= 8


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (problem(401, "unauthorized"), KeyRefusedError),
        (problem(403, "forbidden"), KeyRefusedError),
        (problem(404, "not-found"), RefusedError),
        (problem(409, "stale-lease"), StaleLeaseError),
        (problem(409, "conflict"), RefusedError),
        (problem(422, "invalid"), RefusedError),
        (problem(426, "worker-version"), VersionError),
    ],
)
def test_a_refusal_is_told_at_once(
    script: Script, client: ServiceClient, time: Time, answer: Any, error: type[RefusedError]
) -> None:
    """In the words of the service, with its status."""
    script.answers = [answer]
    with pytest.raises(error, match=r"^about ") as refused:
        client.heartbeat(JOB)
    assert type(refused.value) is error
    assert refused.value.status == answer[0]
    assert time.pauses == []


@pytest.mark.parametrize(
    "answer",
    [
        (200, {}, b"<html>welcome</html>"),
        (200, {}, {"hello": "world"}),
        (404, {}, b"<html>not here</html>"),
        (301, {"Location": "https://elsewhere"}, b""),
        (500, {}, b"oops"),
        (403, {}, []),
        problem(500, "defect"),
    ],
)
def test_what_is_not_this_service_is_told(script: Script, client: ServiceClient, answer: Any) -> None:
    """A proxy's page, another program, a defect: nothing to repeat, and nothing to read."""
    script.answers = [answer]
    with pytest.raises(UnreachableError, match=script.url):
        client.heartbeat(JOB)


def test_a_redirect_names_where_to_go(script: Script, client: ServiceClient) -> None:
    """It is not followed: a key is for the address that somebody chose."""
    script.answers = [(301, {"Location": "https://user:word@elsewhere.example/x"}, b"")]
    with pytest.raises(UnreachableError, match=r"points to https://elsewhere\.example/x: set CHIMERA_URL"):
        client.heartbeat(JOB)


def test_what_cannot_be_stored_is_replaced_in_an_outcome(script: Script, client: ServiceClient) -> None:
    """A job that printed what is no text is told of all the same."""
    script.answers = [(200, {}, {"status": "failed"})]
    client.finish(JOB, Failed(message="a\0b", evidence={"log": ["caf\udce9", "\0"]}))
    assert script.asked[0][2]["outcome"]["message"] == "a?b"
    assert script.asked[0][2]["outcome"]["evidence"] == {"log": ["caf?", "?"]}


def test_a_password_in_the_address_is_not_told(script: Script, time: Time) -> None:
    """And none can be sent beside a key."""
    address = script.url.replace("//", "//user:word@")
    script.answers = [problem(500, "defect"), (200, {}, b"<html>")]
    with ServiceClient(address, pace=time.pace()) as client:
        for _ in range(2):
            with pytest.raises(UnreachableError, match=script.url) as told:
                client.heartbeat(JOB)
            assert "word" not in str(told.value)
    with pytest.raises(RequestError, match="in place of the key"):
        ServiceClient(address, key="secret")


@pytest.mark.parametrize(
    "environment",
    [{"ALL_PROXY": "socks5://127.0.0.1:1"}, {"NO_PROXY": "fe80::/64"}, {"SSL_CERT_FILE": "/nothing"}],
)
def test_an_environment_that_cannot_be_used_is_told(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless nothing of it is needed: a host that NO_PROXY names is gone to directly."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RequestError, match="of the environment cannot be used"):
        ServiceClient("http://10.0.0.7:8000")
    if "ALL_PROXY" in environment:
        monkeypatch.setenv("NO_PROXY", "localhost,10.0.0.0/8")
        ServiceClient("http://10.0.0.7:8000").close()


@pytest.mark.parametrize(
    ("host", "exceptions", "direct"),
    [
        ("tuner.example.org", ".example.org", True),
        ("tuner.example.org", "example.org, x", True),
        ("tuner.example.org", "*", True),
        ("tuner.example.org", "*.EXAMPLE.org", True),
        ("badexample.org", "example.org", False),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("10.1.2.3", "10.1.2.30", False),
        ("::1", "[::1]", True),
        ("tuner", "", False),
        ("tuner", ",.,", False),
    ],
)
def test_no_proxy_is_read_as_other_programs_read_it(host: str, exceptions: str, direct: bool) -> None:
    """Hosts, domains and networks."""
    assert is_direct(host, exceptions) is direct


def test_lists_are_read_page_by_page(script: Script, client: ServiceClient) -> None:
    """As many as are asked for."""
    entry = WORKER.model_dump(mode="json") | {
        "owner": "o", "status": "silent", "jobs": [], "first_seen_at": "2026-01-01T00:00:00Z",
        "last_seen_at": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    script.answers = [
        (200, {}, {"items": [entry, entry], "next": "c"}), (200, {}, {"items": [entry], "next": None}),
    ]  # fmt: skip
    assert len(list(client.workers())) == 3
    assert [path for path, _, _ in script.asked] == [
        "/v1/workers?limit=500",
        "/v1/workers?limit=500&cursor=c",
    ]


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "ftp://host", "http://", "http://host:99999", "http://["]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    """With an example of one."""
    with pytest.raises(RequestError, match=r"such as http://127\.0\.0\.1:8000"):
        ServiceClient(url)


@pytest.mark.parametrize("key", ["two\nlines", "schlüssel", " spaced"])
def test_a_key_that_cannot_be_sent_is_refused(key: str) -> None:
    """Without repeating it."""
    with pytest.raises(RequestError) as refused:
        ServiceClient("http://127.0.0.1:1", key=key)
    assert key not in str(refused.value)
