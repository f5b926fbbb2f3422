"""Does the history of a model show its studies, trials, profiles and checks, and what got worse?"""

from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from api.reports.axes import moments
from api.service import Service
from tests.api.conftest import TINY, Clock, connect
from tests.api.life.pool import MEASURED, Pool, profile
from tests.api.page import Page

HISTORY = "/models/tiny-gpt/history"


def timed(factor: float, **environment: Any) -> dict[str, Any]:
    """The profile, slower by a factor."""
    made = profile()
    made["timings"]["environment"] = {"device": "A host"} | environment
    points = [
        {**point, "forward_s": factor * point["forward_s"], "backward_s": factor * point["backward_s"]}
        for point in made["timings"]["types"][0]["points"]
    ]
    for entry in made["timings"]["types"]:
        entry["points"] = points
    return made


def check(clock: Clock, status: str, throughput: float, **more: Any) -> dict[str, Any]:
    """What `chimera ci` uploads of tiny-gpt."""
    change = {"kind": "slower_layer", "what": "block", "regression": True, "message": "block is <b>slow</b>"}
    answer: dict[str, Any] = {
        "name": "tiny-gpt",
        "status": status,
        "changes": [change] if status == "regressed" else [],
    }
    answer |= {"throughput_samples_per_s": throughput, "profile_id": "a" * 64, "profile": "measured"}
    outcome = {"throughput_samples_per_s": throughput, "capacity_bytes": 10**9}
    return {
        "schema_version": 1, "project": "team/<i>models</i>", "branch": "main", "accepted": status == "ok",
        "checked_at": clock().isoformat(), "answer": answer, "outcome": outcome,
        "fingerprint_of_profile": "b" * 64,
    } | more  # fmt: skip


def test_everything_about_a_model_is_there(service: Service, clock: Clock) -> None:
    """Lines over time for all four, tables that link to them, and what got worse with a cross."""
    pool = Pool(service)
    client = connect(service)
    for factor in (1.0, 1.3):
        assert client.post("/v1/profiles", json=timed(factor)).status_code == 201
        clock.forward(days=1)
    for status, throughput in (("ok", 100.0), ("regressed", 80.0)):
        assert client.post("/v1/checks", json=check(clock, status, throughput)).status_code == 201
        clock.forward(days=1)
    pool.connect()
    study = client.post("/v1/studies", json=MEASURED).json()
    pool.work()
    other = client.post("/v1/profiles", json=timed(1.0) | {}).json()
    shown = client.get(HISTORY).text
    text = Page(shown).text.replace("\N{NO-BREAK SPACE}", " ")
    assert "1 study, 3 trials, 3 profiles and 2 checks in CI" in text
    assert shown.count('class="plot"') == 4
    assert shown.count('class="cross') == 2
    assert "-23.1 % ▼" in text
    assert "block is <b>slow</b>" in text
    assert "<b>slow" not in shown
    assert "<i>models" not in shown
    links = Page(shown).links
    assert study["links"]["page"] in links
    assert f"/profiles/{other['id']}" in links


def test_a_study_that_is_answered_worse_than_before_is_told(sqlite_client: TestClient, clock: Clock) -> None:
    """Only against exactly the same question."""
    for request in (TINY, TINY, TINY | {"optimizer": "sgd"}):
        sqlite_client.post("/v1/studies", json=request)
        clock.forward(hours=1)
    text = Page(sqlite_client.get(HISTORY).text).text
    assert text.count("+0.0 %") == 1
    assert "▼" not in text


def test_models_of_any_name_have_a_history(sqlite_client: TestClient) -> None:
    """With slashes and markup in it; 404 where nothing is known, and for a preset the way on."""
    assert sqlite_client.get(HISTORY).status_code == 200
    assert "Nothing is known of it yet" in Page(sqlite_client.get(HISTORY).text).text
    missing = sqlite_client.get("/models/a/<b>c/history")
    assert missing.status_code == 404
    assert "a/<b>c" in Page(missing.text).text
    assert "<b>c" not in missing.text
    made = timed(1.0)
    made["description"]["name"] = "team/100%_a?b"
    sqlite_client.post("/v1/profiles", json=made)
    page = Page(sqlite_client.get("/profiles").text)
    assert "team/100%_a?b" in page.text
    history = sqlite_client.get("/models/team/100%25_a%3Fb/history")
    assert history.status_code == 200
    assert "1 profile and 0 checks" in Page(history.text).text


@pytest.mark.parametrize("span", [timedelta(0), *(timedelta(minutes=3**power) for power in range(14))])
def test_moments_have_a_few_ticks_whatever_they_span(clock: Clock, span: timedelta) -> None:
    """From one moment to five years: at least one, and no more than have room."""
    axis = moments("UTC", [clock().timestamp(), (clock() + span).timestamp()], start=0, end=100)
    assert 1 <= len(axis.ticks) <= 7
    assert all(0 <= place <= 100 for place, _ in axis.marks())
