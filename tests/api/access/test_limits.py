"""Does one caller leave room for the others, and does nobody wait for ever?"""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from api import planning
from api.access.effort import Effort
from api.access.rates import MOST_KEPT, Rates
from api.service import Service
from api.web.deadline import current_deadline
from api.web.problems import UnavailableProblem
from tests.api.conftest import TINY, Clock, connect
from tests.api.work.factories import client_with

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def limited(service: Service, clock: Clock, **settings: Any) -> Service:
    """The service with other limits, whose budgets fill up by the clock."""
    changed = service.settings.model_copy(update=settings)

    def seconds() -> float:
        return (clock.at - BEGAN).total_seconds()

    return Service(changed, service.database, clock, rates=Rates(seconds))


def test_a_budget_is_spent_and_fills_up_again() -> None:
    """So many at once, then one whenever a token came; a refusal costs nothing."""
    now = [0.0]
    rates = Rates(lambda: now[0])

    def take(bucket: str = "a") -> float:
        return rates.take(bucket, per_minute=60, burst=3)

    assert [take() for _ in range(3)] == [0, 0, 0]
    assert take() == pytest.approx(1)
    assert take() == pytest.approx(1)
    assert take("b") == 0
    now[0] = 1.0
    assert take() == 0
    assert take() == pytest.approx(1)
    now[0] = 1_000.0
    assert [take() for _ in range(3)] == [0, 0, 0]
    assert take() > 0


def test_budgets_of_many_callers_take_little_memory() -> None:
    """Those that are full are forgotten first; who has just spent the most is not."""
    rates = Rates(lambda: 0.0)
    for _ in range(5):
        rates.take("busy", per_minute=1, burst=5)
    for number in range(2 * MOST_KEPT):
        rates.take(str(number), per_minute=60, burst=3)
    assert len(rates._full_at) <= MOST_KEPT  # nothing else shows the memory
    assert rates.take("busy", per_minute=1, burst=5) > 0


def test_expensive_calls_cost_a_budget_for_each_key(sqlite_service: Service, clock: Clock) -> None:
    """429 says when to come back; other keys, other kinds of call and cheap ones are not touched."""
    service = limited(sqlite_service, clock, rate_per_minute=6, rate_burst=2)
    first, second = client_with(service, "submit"), client_with(service, "submit")
    assert [first.post("/v1/plans", json=TINY).status_code for _ in range(3)] == [200, 200, 429]
    refused = first.post("/v1/plans", json=TINY)
    assert refused.headers["retry-after"] == "10"
    assert refused.json()["type"].endswith("too-many")
    assert "2 at once and 6 a minute" in refused.json()["detail"]
    assert second.post("/v1/plans", json=TINY).status_code == 200
    assert first.post("/v1/studies", json=TINY).status_code == 201
    assert first.get("/v1/studies").status_code == 200
    assert first.post("/v1/plans", json={"model": 1}).status_code == 422
    clock.forward(seconds=10)
    assert [first.post("/v1/plans", json=TINY).status_code for _ in range(2)] == [200, 429]


def test_answers_that_are_given_again_cost_nothing(sqlite_service: Service, clock: Clock) -> None:
    """Each of 64 nodes may ask with the Idempotency-Key of its job: one study is made, and paid for."""
    service = limited(sqlite_service, clock, rate_per_minute=1, rate_burst=1)
    client = connect(service)

    def ask(_: int) -> Any:
        return client.post("/v1/studies", json=TINY, headers={"Idempotency-Key": "job-7"})

    with ThreadPoolExecutor(16) as nodes:
        answers = list(nodes.map(ask, range(64)))
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert len({answer.json()["id"] for answer in answers if answer.status_code == 201}) == 1
    assert client.post("/v1/studies", json=TINY).status_code == 429
    assert len(client.get("/v1/studies").json()["items"]) == 1


def test_the_usual_limits_let_a_launch_of_many_jobs_through(sqlite_service: Service, clock: Clock) -> None:
    """120 at once, whatever the service could do in that time."""
    service = limited(sqlite_service, clock)
    waits = [service.rates.take("a", per_minute=600, burst=120) for _ in range(121)]
    assert (service.settings.rate_per_minute, service.settings.rate_burst) == (600, 120)
    assert waits[:120] == [0] * 120
    assert waits[120] > 0


def test_what_cannot_be_worked_on_soon_is_sent_away(
    sqlite_service: Service, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is worked on, one waits, the third hears 503 at once; meanwhile everything cheap is answered."""
    service = limited(sqlite_service, clock, work_at_once=1, work_waiting=1)
    client, go_on, begun = connect(service), threading.Event(), threading.Semaphore(0)
    plan = planning.plan

    def slowly(*arguments: Any) -> Any:
        begun.release()
        assert go_on.wait(60)
        return plan(*arguments)

    monkeypatch.setattr(planning, "plan", slowly)
    with ThreadPoolExecutor(2) as others:
        first = others.submit(client.post, "/v1/plans", json=TINY)
        assert begun.acquire(timeout=60)
        second = others.submit(client.post, "/v1/plans", json=TINY)
        while service.effort.there < 2:
            threading.Event().wait(0.01)
        refused = client.post("/v1/plans", json=TINY)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert client.get("/v1/studies").status_code == 200
        go_on.set()
        assert first.result().status_code == second.result().status_code == 200
    assert client.post("/v1/plans", json=TINY).status_code == 200


def test_work_that_fails_gives_its_place_back() -> None:
    """However it ends; once the service stops nothing begins."""
    effort = Effort(at_once=1, waiting=0)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            asyncio.run(effort.run(lambda: 1 / 0))
    assert asyncio.run(effort.run(lambda: 7)) == 7
    effort.close()
    with pytest.raises(UnavailableProblem, match="stopping"):
        asyncio.run(effort.run(lambda: 7))
    assert effort.there == 0


def test_what_takes_too_long_is_answered_and_not_kept(
    sqlite_service: Service, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """504; the study that comes out late is thrown away, and its Idempotency-Key is free again."""
    service = limited(sqlite_service, clock, request_seconds=0.2)
    plan = planning.plan

    def late(*arguments: Any) -> Any:
        while current_deadline().left_s() > -0.2:
            threading.Event().wait(0.01)
        return plan(*arguments)

    monkeypatch.setattr(planning, "plan", late)
    headers = {"Idempotency-Key": "k"}
    with connect(service) as client:
        refused = client.post("/v1/studies", json=TINY, headers=headers)
        assert refused.status_code == 504
        assert refused.json()["type"].endswith("timeout")
        assert "0.2 s" in refused.json()["detail"]
        assert client.get("/v1/studies").json()["items"] == []
        monkeypatch.setattr(planning, "plan", plan)
        generous = connect(limited(sqlite_service, clock))
        assert generous.post("/v1/studies", json=TINY, headers=headers).status_code == 201
