"""Is every kind of bad input answered with a problem that says what, the numbers, and what to do?"""

import json
import logging
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError
from starlette.testclient import TestClient

from api.service import Service
from api.web.handlers import as_problem
from tests.api.conftest import BERT, TINY, connect

CREATORS = ("/v1/plans", "/v1/studies")


def check(refused: Any, *, status: int) -> str:
    """A problem document of that status without traces; returns its detail."""
    assert refused.status_code == status, refused.text
    assert refused.headers["content-type"] == "application/problem+json"
    problem = refused.json()
    assert problem["status"] == status
    assert problem["type"].startswith("urn:chimera-tuner:problem:")
    assert problem["title"]
    assert "Traceback" not in refused.text
    assert 'File "' not in refused.text
    assert 10 < len(problem["detail"]) < 5_000
    return str(problem["detail"])


LLAMA_CONFIG = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
    "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 1000, "max_position_embeddings": 512,
}  # fmt: skip


@pytest.mark.parametrize("path", CREATORS)
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model": "bert-47"}, ["bert-47", "bert-48"]),
        ({"model": "meta-llama/Llama-3-8B"}, ["llama-3-8b", "config.json"]),
        ({"model": "../../etc/passwd"}, ["passwd"]),
        ({"model": 7}, [': give a preset\'s name, {"config": {...}} or {"profile": id}, not 7']),
        ({"cluster": []}, [': give a preset\'s name, {"document": {...}}, not []']),
        ({"cluster": {"document": {"name": 3}}}, ["valid: cluster.document.name: Input", "link: Field"]),
        ({"cluster": {"document": 3}}, ["valid: cluster.document: Input should be an object, not 3"]),
        ({"width": 8, "data_parallel_size": 4}, ["data_parallel_size are two names of one", "8 and 4"]),
        ({"global_batch_size": 512}, ["valid: mini_batch_size and global_batch_size are two names"]),
        ({"model": {}}, ["valid: model: give exactly one of 'config' and 'profile'"]),
        ({"model": {"config": {}, "profile": "x"}}, ["exactly one"]),
        ({"model": {"config": []}}, ["config"]),
        ({"model": {"config": {"hello": "world"}}, "sequence_length": 8}, ["config.json", "model_type"]),
        ({"model": {"config": LLAMA_CONFIG}}, ["sequence_length"]),
        (
            {"model": {"config": LLAMA_CONFIG | {"hidden_size": -1}}, "sequence_length": 8},
            ["hidden_size", "-1"],
        ),
        (
            {"model": {"config": LLAMA_CONFIG | {"hidden_size": 10**30}}, "sequence_length": 8},
            ["hidden_size"],
        ),
        (
            {"model": {"config": LLAMA_CONFIG | {"num_hidden_layers": 10**9}}, "sequence_length": 8},
            ["num_hidden"],
        ),
        ({"accelerator": "h200"}, ["h200", "h200-141gb"]),
        ({"cluster": "daint"}, ["daint", "piz-daint"]),
        ({"unheard_of": 1}, ["unheard_of"]),
        ({"devices": 0}, ["devices"]),
        ({"devices": -4}, ["devices"]),
        ({"devices": 10**30}, ["devices"]),
        ({"devices": "32"}, ["devices"]),
        ({"devices": 1.5}, ["devices"]),
        ({"devices": True}, ["devices"]),
        ({"devices": None}, ["devices"]),
        ({"devices": 1, "schedules": "chimera"}, ["chimera", "even"]),
        ({"mini_batch_size": 0}, ["mini_batch_size"]),
        ({"mini_batch_size": -512}, ["mini_batch_size"]),
        ({"margin": 1.5}, ["margin"]),
        ({"margin": -0.1}, ["margin"]),
        ({"depth": 49}, ["depth", "48"]),
        ({"width": 8, "depth": 8}, ["64", "32"]),
        ({"schedules": "chimaera"}, ["chimaera", "chimera"]),
        ({"schedules": []}, ["schedule"]),
        ({"precision": "int8"}, ["precision"]),
        ({"tensor_parallel": 8}, ["tensor_parallel", "not modelled"]),
        ({"why": "depth=sixteen"}, ["depth"]),
    ],
)
def test_bad_options_are_refused_with_what_to_do(
    sqlite_client: TestClient, path: str, change: dict[str, Any], told: list[str]
) -> None:
    """422 that names the option, its value or the closest good one; or an answer in which nothing fits."""
    answered = sqlite_client.post(path, json=BERT | change)
    if answered.status_code in {200, 201}:
        plan = answered.json().get("plan", answered.json())
        assert plan["chosen"] is None
        detail = json.dumps(plan["rejected"])
    else:
        detail = check(answered, status=422)
        assert sqlite_client.get("/v1/studies").json()["items"] == []
    for word in told:
        assert word in detail


def test_a_mini_batch_that_nothing_divides_says_so(sqlite_client: TestClient) -> None:
    """The numbers and a mini-batch that would do."""
    refused = sqlite_client.post("/v1/plans", json=BERT | {"mini_batch_size": 7, "depth": 4})
    assert "use a mini-batch of 8" in check(refused, status=422)


@pytest.mark.parametrize("path", [*CREATORS, "/v1/profiles", "/v1/clusters", "/v1/measurements"])
@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"{", "not valid JSON"),
        (b"model=bert-48", "not valid JSON"),
        (b'{"devices": NaN}', "NaN"),
        (b'{"margin": -Infinity}', "Infinity"),
        (b'{"margin": 1e999}', "too large"),
        (b'{"devices": 1, "devices": 2}', "twice"),
        (b'{"name": "\\u0000"}', "NUL"),
        (b'{"na\\ud800me": 1}', "surrogate"),
        (b"\xff\xfe{}", "UTF-8"),
        (b"[" * 10_000 + b"]" * 10_000, "more than 64 levels"),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "more than 64 levels"),
        (b"[" * 1_000_000, "more than 64 levels"),
        (b"9" * 5_000, "JSON"),
    ],
    ids=lambda value: str(value[:20]),
)
def test_a_body_that_cannot_be_read_is_refused(
    sqlite_client: TestClient, path: str, body: bytes, told: str
) -> None:
    """400 that says what is wrong with it."""
    refused = sqlite_client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert told in check(refused, status=400)


@pytest.mark.parametrize("body", [b"[]", b"1", b'"bert-48"', b"null", b"true"])
def test_json_that_is_no_request_is_refused(sqlite_client: TestClient, body: bytes) -> None:
    """422 that shows what a request looks like."""
    for path in CREATORS:
        refused = sqlite_client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert "JSON object" in check(refused, status=422)


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_of_50_mb_is_refused_with_its_size(sqlite_client: TestClient, declared: bool) -> None:
    """413 with both numbers, whether or not the length was told beforehand."""
    size, piece = 50_000_000, b" " * 1_000_000
    content: Any = b" " * size if declared else (piece for _ in range(50))
    refused = sqlite_client.post("/v1/studies", content=content, headers={"Content-Type": "application/json"})
    detail = check(refused, status=413)
    assert "50,000,000" in detail
    assert "4,000,000" in detail


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/json"]
)
def test_a_body_that_is_not_declared_as_json_is_refused(sqlite_client: TestClient, kind: str) -> None:
    """415 that shows the header: forms of other sites can send these kinds without asking."""
    refused = sqlite_client.post("/v1/studies", content=json.dumps(TINY), headers={"Content-Type": kind})
    assert "Content-Type: application/json" in check(refused, status=415)


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/v1",
        "/v1/studies/nothing",
        "/v1/studies/nothing/report",
        "/docs",
        "/redoc",
        "/assets/x/y.js",
    ],
)
def test_an_unknown_address_is_not_found(sqlite_client: TestClient, path: str) -> None:
    """404 for programs as a problem document."""
    check(sqlite_client.get(path), status=404)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/plans", "POST"),
        ("OPTIONS", "/v1/studies", "GET, HEAD, POST"),
        ("PATCH", "/v1/studies/nothing", "DELETE, GET, HEAD"),
        ("GET", "/v1/jobs/claim", "POST"),
        ("POST", "/studies/nothing", "GET, HEAD"),
    ],
)
def test_a_method_that_an_address_does_not_take_is_refused(
    sqlite_client: TestClient, method: str, path: str, allowed: str
) -> None:
    """405 with all those that it takes; what has a meaning of its own is no id."""
    refused = sqlite_client.request(method, path)
    assert method in check(refused, status=405) or path.startswith("/studies")
    assert refused.headers["allow"] == allowed


@pytest.mark.parametrize("query", ["limit=0", "limit=501", "limit=x", "cursor=" + "x" * 200])
def test_bad_query_parameters_are_named(sqlite_client: TestClient, query: str) -> None:
    """422 that names the parameter."""
    assert query.partition("=")[0] in check(sqlite_client.get(f"/v1/studies?{query}"), status=422)


@pytest.mark.parametrize(
    "address", ["/v1/studies?name=%00", "/v1/studies/%00", "/?name=a%00b", "/models/%00/history"]
)
def test_nul_in_an_address_is_named(client: TestClient, address: str) -> None:
    """422 on each database: one would take it for the end of a text, and find everything."""
    assert "NUL" in check(client.get(address), status=422)


def test_numbers_that_no_database_holds_are_named(client: TestClient) -> None:
    """422 on each database, where what is asked for is found by a number."""
    for name in ("candidate", "trial"):
        for value in (0, -1, 2**31, 2**63, 10**30, "1.5", "\u0663", "nan", ""):
            refused = client.get("/v1/studies/nothing/timeline", params={name: str(value)})
            assert name in check(refused, status=422)


@pytest.mark.parametrize("path", ["/v1/studies", "/v1/profiles", "/v1/clusters", "/v1/measurements"])
@pytest.mark.parametrize("cursor", ["zzz", "", "0" * 27, "' OR 1=1", "é" * 26])
def test_a_cursor_that_no_page_gave_is_refused(sqlite_client: TestClient, path: str, cursor: str) -> None:
    """Rather than answered with some part of the list."""
    detail = check(sqlite_client.get(path, params={"cursor": cursor}), status=422)
    assert "is not one of this list" in detail


def test_strings_that_look_like_code_stay_text(sqlite_client: TestClient) -> None:
    """They come back as they were sent, in JSON and escaped in pages."""
    attack = "</script><script>alert(1)</script>"
    asked = TINY | {"name": attack, "model": {"config": LLAMA_CONFIG, "name": attack}, "sequence_length": 64}
    study = sqlite_client.post("/v1/studies", json=asked)
    assert study.status_code == 201, study.text
    assert study.json()["name"] == attack
    for page in (study.json()["links"]["page"], "/", study.json()["links"]["report"]):
        text = sqlite_client.get(page).text
        assert "alert(1)" in text
        assert attack not in text


def test_an_unexpected_error_has_an_id_that_is_logged(
    sqlite_service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """500 without a trace; the log has the trace under the id that the client was told."""

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("secret internals")

    monkeypatch.setattr("api.computing.plans.answer", fail)
    with caplog.at_level(logging.ERROR, logger="chimera.api"):
        refused = connect(sqlite_service).post("/v1/plans", json=BERT)
    check(refused, status=500)
    assert "secret" not in refused.text
    assert "ZeroDivisionError" not in refused.text
    assert refused.json()["id"] in caplog.text
    assert "secret internals" in caplog.text


def test_a_database_that_does_not_answer_is_unavailable() -> None:
    """503 with Retry-After, not a defect."""
    problem = as_problem(OperationalError("SELECT 1", {}, Exception("connection refused")))
    assert problem.status == 503
    assert problem.headers == {"Retry-After": "5"}
    assert "SELECT" not in problem.detail
