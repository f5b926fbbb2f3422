"""Does the log tell what was asked, by whom and how it ended, and never a secret?"""

import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from api.app import create_app
from api.operations.logs import JsonLine, Once, TextLine, without_secrets
from api.service import Service
from tests.api.conftest import TINY, connect
from tests.api.work.factories import add_job, client_with, make_key, post_claim

Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """What the service's loggers write, read back line by line."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonLine())
    handler.addFilter(Once())
    logger = logging.getLogger("chimera")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    logger.removeHandler(handler)
    logger.setLevel(level)


def test_a_request_is_one_line_that_names_its_route_caller_and_study(
    sqlite_service: Service, lines: Lines
) -> None:
    """The template of the address, never what was filled in or asked for after it."""
    client = client_with(sqlite_service, "read", "submit")
    made = client.post("/v1/studies", json=TINY, headers={"X-Request-ID": "job-17.step_2"})
    study_id = made.json()["id"]
    client.get(f"/v1/studies/{study_id}?wait=0&token=correct-horse")
    changed, first, second = lines()
    assert (changed["logger"], changed["request_id"]) == ("chimera.audit", "job-17.step_2")
    assert made.headers["x-request-id"] == first["request_id"] == "job-17.step_2"
    for line, method, route, status in (
        (first, "POST", "/v1/studies", 201),
        (second, "GET", "/v1/studies/{study_id}", 200),
    ):
        assert (line["method"], line["route"], line["status"]) == (method, route, status)
        assert line["study_id"] == study_id
        assert line["duration_s"] > 0
        assert line["level"] == "info"
    assert second["caller"] == first["caller"]
    assert second["request_id"] != first["request_id"]
    assert "correct-horse" not in json.dumps(lines())


def test_a_workers_call_names_its_job(sqlite_service: Service, lines: Lines) -> None:
    """The one that it was given, and the one that it tells of."""
    job_id = add_job(sqlite_service)
    client = client_with(sqlite_service, "work")
    job = post_claim(client).json()
    client.post(f"/v1/jobs/{job_id}/heartbeat", json={"token": job["token"]})
    assert [line.get("job_id") for line in lines()] == [job_id, job_id]


@pytest.mark.parametrize("brought", ["", "a b", "x" * 65, 'x"}', "é", "../../etc/passwd"])
def test_an_id_that_is_none_is_replaced(sqlite_service: Service, brought: str) -> None:
    """Whatever a client sends, what is logged and answered is one short word."""
    answer = connect(sqlite_service).get("/healthz", headers={"X-Request-ID": brought.encode()})
    assert answer.headers["x-request-id"].isalnum()
    assert answer.headers["x-request-id"] != brought


def test_a_defect_is_told_once_with_its_traceback_under_both_ids(
    sqlite_service: Service, lines: Lines
) -> None:
    """The client gets the ids, the log the rest; what nobody expected has no place in an answer."""
    app = create_app(service=sqlite_service)

    @app.get("/v1/defect")
    def defect() -> None:
        raise RuntimeError("the reactor is on fire")

    from starlette.testclient import TestClient

    client = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)
    answer = client.get("/v1/defect", headers={"X-Request-ID": "r-1"})
    problem = answer.json()
    assert (answer.status_code, answer.headers["x-request-id"], problem["request_id"]) == (500, "r-1", "r-1")
    assert "reactor" not in answer.text
    (told,) = [line for line in lines() if "traceback" in line]
    assert told["request_id"] == "r-1"
    assert problem["id"] in told["message"]
    assert "the reactor is on fire" in told["traceback"]
    assert [line["status"] for line in lines() if "status" in line] == [500]


def test_probes_that_succeed_are_not_told(sqlite_service: Service, lines: Lines) -> None:
    """They come every few seconds and say nothing new."""
    client = connect(sqlite_service)
    for path in ("/healthz", "/readyz", "/metrics"):
        assert client.get(path).status_code == 200
    assert lines() == []


def test_an_address_that_is_none_stays_out_of_the_log(sqlite_service: Service, lines: Lines) -> None:
    """It may hold anything, such as a key that was pasted in the wrong place."""
    _, secret = make_key(sqlite_service, "read")
    connect(sqlite_service).get(f"/v1/{secret}?key={secret}")
    (line,) = lines()
    assert (line["route"], line["status"]) == ("unknown", 404)
    assert secret not in json.dumps(line)


@pytest.mark.parametrize("line", [JsonLine, TextLine])
@pytest.mark.parametrize(
    "text",
    [
        "key chimera_{} was sent",
        "connecting to postgresql+psycopg://chimera:{}@db/chimera",
        "options: host=db password={} dbname=x",
        "{{'authorization': '{}'}}",
        "Cookie: {}",
    ],
)
def test_what_looks_like_a_secret_is_struck_out(line: type[logging.Formatter], text: str) -> None:
    """In messages and tracebacks, whoever wrote them."""
    secret = "q" * 43
    told = text.format(secret)
    try:
        raise RuntimeError(told)
    except RuntimeError as error:
        record = logging.LogRecord(
            "other", logging.ERROR, __file__, 1, told, (), (type(error), error, error.__traceback__)
        )
    written = line().format(record)
    assert secret not in written
    if line is JsonLine:
        assert "***" in json.loads(written)["message"]
    assert "***" in written
    assert without_secrets("nothing to hide") == "nothing to hide"


def test_a_line_is_one_line_whatever_is_in_it() -> None:
    """Nobody can write a line of the log by asking for something with a line break."""
    record = logging.LogRecord("chimera", logging.INFO, __file__, 1, "one\n{}\r\ntwo", (), None)
    assert json.loads(JsonLine().format(record))["message"] == "one\n{}\r\ntwo"
    for line in (JsonLine(), TextLine()):
        assert len(line.format(record).splitlines()) == 1
