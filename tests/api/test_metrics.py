"""Can what the service counts be scraped, by whom it should, without a series for every client's whim?"""

import re
from datetime import timedelta
from pathlib import Path

import yaml
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import insert
from starlette.testclient import TestClient

from api.service import Service
from api.storage.tables import WorkerRow
from tests.api.conftest import BERT, NO_FIT, TINY, Clock, connect
from tests.api.work.factories import add_job, client_with, take, worker
from tuner.messages import JobKind

ROOT = Path(__file__).parents[2]
Figures = dict[tuple[str, tuple[str, ...]], float]


def scrape(client: TestClient) -> Figures:
    """Every sample by its name and the values of its labels."""
    answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def growth(before: Figures, after: Figures, name: str) -> dict[tuple[str, ...], float]:
    """What was added to each series of a counter."""
    return {
        labels: value - before.get((found, labels), 0)
        for (found, labels), value in after.items()
        if found == name and value != before.get((found, labels), 0)
    }


def test_requests_and_plans_are_counted_by_what_they_were(sqlite_client: TestClient) -> None:
    """Method, the address without what was filled in, and status; a plan by what came out."""
    before = scrape(sqlite_client)
    made = sqlite_client.post("/v1/studies", json=TINY).json()
    sqlite_client.get(f"/v1/studies/{made['id']}")
    sqlite_client.get(f"/v1/studies/{made['id']}")
    sqlite_client.post("/v1/plans", json=NO_FIT)
    sqlite_client.post("/v1/plans", json=BERT | {"devices": 0})
    after = scrape(sqlite_client)
    counted = growth(before, after, "chimera_http_requests_total")
    assert counted[("GET", "/v1/studies/{study_id}", "200")] == 2
    assert counted[("POST", "/v1/studies", "201")] == 1
    assert counted[("POST", "/v1/plans", "422")] == 1
    timed = growth(before, after, "chimera_http_request_duration_seconds_count")
    assert timed[("GET", "/v1/studies/{study_id}")] == 2
    plans = growth(before, after, "chimera_plan_duration_seconds_count")
    assert (plans[("chosen",)], plans[("nothing_fits",)]) == (1, 1)


def test_a_flood_of_unknown_addresses_and_methods_makes_no_new_series(sqlite_client: TestClient) -> None:
    """What is not known is counted together."""
    for number in range(3):
        sqlite_client.get(f"/nothing/{number}")
        sqlite_client.request(f"BREW{number}", "/healthz")
        sqlite_client.get(f"/v1/studies/{number}")
        sqlite_client.get(f"/static/{number}.js")
    labels = {value for _, values in scrape(sqlite_client) for value in values}
    assert "unknown" in labels
    assert not [value for value in labels if re.search(r"BREW|nothing/|/\d", value)]


def test_the_queue_the_workers_and_the_studies_are_figures(service: Service, clock: Clock) -> None:
    """Depth and age by kind, who is there, and what is kept, on both databases."""
    client = client_with(service, "read", "submit", "work")
    client.post("/v1/studies", json=TINY)
    add_job(service, kind=JobKind.PROFILE_MODEL, payload={})
    clock.forward(seconds=30)
    add_job(service)
    add_job(service)
    assert take(service) is not None
    with service.database.writing() as session:
        for silent_s in (0, 3_600):
            moment = clock() - timedelta(seconds=silent_s)
            inventory = worker()
            session.execute(
                insert(WorkerRow).values(
                    id=inventory.id, owner="alice", name="bench", first_seen_at=moment, last_seen_at=moment,
                    inventory=inventory.model_dump(mode="json"),
                )
            )  # fmt: skip
    clock.forward(seconds=12)
    figures = scrape(client)
    jobs = {labels: value for (name, labels), value in figures.items() if name == "chimera_jobs"}
    assert sum(jobs.values()) == 3
    assert sum(value for (_, status), value in jobs.items() if status == "running") == 1
    ages = {
        labels[0]: value
        for (name, labels), value in figures.items()
        if name == "chimera_oldest_queued_job_age_seconds"
    }
    assert ages["profile_links"] == 0
    assert max(ages.values()) in {12, 42}
    assert figures["chimera_workers", ("connected",)] == 1
    assert figures["chimera_workers", ("silent",)] == 1
    assert figures["chimera_studies", ("done",)] == 1
    assert figures["chimera_studies", ("failed",)] == 0
    assert figures["chimera_database_up", ()] == 1
    assert figures["chimera_database_size_bytes", ()] > 10_000


def test_every_metric_is_explained_and_alerts_ask_for_no_other(sqlite_client: TestClient) -> None:
    """docs/operations.md has them all, and what the rules name exists, with the labels that they use."""
    shown = sqlite_client.get("/metrics").text
    families = {family.name for family in text_string_to_metric_families(shown)}
    own = {name for name in families if name.startswith("chimera_")}
    explained = set(re.findall(r"`(chimera_\w+)`", (ROOT / "docs/operations.md").read_text()))
    assert {re.sub("_(total|info)$", "", name) for name in explained} == {
        re.sub("_(total|info)$", "", name) for name in own
    }
    rules = yaml.safe_load((ROOT / "examples/operations/alerts.yml").read_text())
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        assert rule["annotations"]["summary"]
        for name in re.findall(r"chimera_\w+", rule["expr"]):
            assert re.sub("_(total|bucket)$", "", name) in own | {"chimera"}, rule["alert"]


def test_counts_are_for_who_may_read(sqlite_service: Service) -> None:
    """Once there are keys, a scraper needs one."""
    assert client_with(sqlite_service, "read").get("/metrics").status_code == 200
    assert client_with(sqlite_service, "work").get("/metrics").status_code == 403
    assert connect(sqlite_service).get("/metrics").status_code == 401
