"""What is on the pages of a service that people use? Some of everything, with markup in every name."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from api.service import Service
from api.settings import Settings
from api.storage.database import open_database, upgrade
from profiles import library
from tests.api.conftest import TINY, Clock, connect
from tests.api.life.pool import LINK, MEASURED, Pool, profile
from tests.api.work.factories import add_job, claim_of, post_claim, post_finish, worker
from tests.system.browsing import ATTACK
from tuner.messages import DeviceGroup, Failed, JobKind

LINES = f"{ATTACK} {'a-long-word-' * 8}"
WORD = "w" * 180
"""A name that breaks nowhere."""


@dataclass(frozen=True)
class Furnished:
    """The addresses of pages that have something to show."""

    pages: dict[str, str]
    studies: dict[str, str]
    """Ids by what they are."""


def furnish(address: str) -> Furnished:
    """Fill an empty database."""
    upgrade(address)
    clock = Clock(datetime.now(UTC) - timedelta(days=3))
    service = Service(Settings(database_url=address, work_in="threads"), open_database(address), clock)
    client, pool = connect(service), Pool(service)
    studies = _studies(client, pool, clock)
    profiles = [_post(client, "/v1/profiles", _profile(factor)) for factor in (1.0, 1.4)]
    cluster = library.load_cluster("local-cpu").model_dump(mode="json", exclude_none=True)
    cluster |= {
        "name": ATTACK,
        "description": LINES,
        "node": cluster["node"] | {"link": LINK | {"source": LINES}},
    }
    stored = _post(client, "/v1/clusters", cluster)
    for status in ("ok", "regressed"):
        clock.forward(hours=2)
        _post(client, "/v1/checks", _check(status, profiles[0]["id"], clock()))
    _workers(service, pool, clock)
    service.database.close()
    compared = ",".join(studies[name] for name in ("one", "twice", "nowhere", "attack"))
    turns = f"{studies['one']},{studies['pinned']}"
    pages = {
        "index": "/",
        "found": "/?name=attack&status=failed",
        "compare": f"/compare?ids={compared}",
        "compare-nothing": "/compare?ids=a,b",
        "crossover": f"/crossovers?studies={turns}",
        "profiles": "/profiles",
        "profile": f"/profiles/{profiles[1]['id']}",
        "clusters": "/clusters",
        "cluster": f"/clusters/{stored['id']}",
        "cluster-shipped": "/clusters/piz-daint",
        "workers": "/workers",
        "silent": "/workers?show=silent",
        "history": "/models/tiny-gpt/history",
        "history-nothing": "/models/a%2Fb/history",
        "login": "/login",
        "missing": f"/studies/{'x' * 26}",
        "goes-on": f"/studies/{studies['goes on']}",
        "nothing-fits": f"/studies/{studies['nowhere']}",
        "report": f"/studies/{studies['trials']}",
    }
    return Furnished(pages, studies)


def _studies(client: TestClient, pool: Pool, clock: Clock) -> dict[str, str]:
    named = TINY | {"model": {"config": library.load_model_preset("tiny-gpt").config, "name": LINES[:200]}}
    pinned = TINY | {"depth": 2, "width": 1, "schedules": ["dapple"]}
    unbroken = library.load_cluster("local-cpu").model_dump(mode="json", exclude_none=True) | {"name": WORD}
    asked = {
        "one": pinned,
        "pinned": pinned | {"mini_batch_size": 16},
        "twice": TINY | {"devices": 4},
        "nowhere": TINY | {"model": "gpt2-xl", "devices": 1, "name": WORD, "cluster": {"document": unbroken}},
        "attack": named | {"sequence_length": 64, "name": ATTACK},
        "trials": MEASURED | {"name": LINES[:200]},
        "goes on": MEASURED | {"mini_batch_size": 64, "name": f"goes on {ATTACK}"},
    }
    found = {}
    for name, body in asked.items():
        clock.forward(minutes=7)
        pool.connect()
        found[name] = _post(client, "/v1/studies", {"name": name} | body)["id"]
        if name == "trials":
            pool.work()
    return found


def _profile(factor: float) -> dict[str, Any]:
    made = profile()
    environment = {"device": ATTACK, "driver": ATTACK, "software": {"torch": ATTACK}, "cores": 2}
    made["timings"] |= {"environment": environment, "notes": [LINES], "source": LINES, "software": ATTACK}
    for number, entry in enumerate(made["timings"]["types"]):
        entry["points"] = [
            {
                "micro_batch_size": size,
                "forward_s": factor * 1e-3 * size**0.8 / (1 + number),
                "backward_s": factor * 2e-3 * size**0.8 / (1 + number),
                "spread": 0.02,
                "repeats": 20,
                "activation_bytes": 10_000 * size,
            }
            for size in (1, 2, 4, 8)
        ]
    return made


def _check(status: str, profile_id: str, at: datetime) -> dict[str, Any]:
    change = {"kind": "slower_layer", "what": ATTACK, "regression": True, "message": LINES}
    answer: dict[str, Any] = {
        "name": "tiny-gpt",
        "status": status,
        "changes": [change],
        "profile_id": profile_id,
    }
    answer |= {"throughput_samples_per_s": 100.0 if status == "ok" else 70.0, "peak_memory_bytes": 10**8}
    where = {"project": ATTACK, "branch": ATTACK, "revision": ATTACK}
    return where | {
        "schema_version": 1, "accepted": status == "ok",
        "checked_at": at.isoformat(), "answer": answer, "fingerprint_of_profile": "b" * 64,
        "outcome": {"throughput_samples_per_s": 100.0, "capacity_bytes": 10**9},
    }  # fmt: skip


def _workers(service: Service, pool: Pool, clock: Clock) -> None:
    """One fell silent, three are there, one of them with a job; one waits; one failed and says why."""
    devices = (DeviceGroup(accelerator=ATTACK, count=8, memory_bytes=80 * 10**9),)
    odd = worker(name=ATTACK, software={"torch": ATTACK}, pools=("odd",), devices=devices)
    add_job(service, pool="odd", accelerator=ATTACK, max_attempts=1, created_by=ATTACK)
    job = post_claim(pool.client, claim_of(odd)).json()
    assert post_finish(pool.client, job, Failed(message=LINES)).status_code == 200
    clock.at = datetime.now(UTC)
    for name in (ATTACK, "node-1"):
        post_claim(pool.client, claim_of(worker(name=name, pools=("idle",), software={"torch": "2.9"})))
    # As many as a study wants, so that its page may be asked for trials.
    post_claim(pool.client, claim_of(worker(name="does one", kinds=(JobKind.PROFILE_MODEL,))))
    add_job(service, kind=JobKind.PROFILE_LINKS, accelerator=ATTACK, created_by="local")


def _post(client: TestClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = client.post(path, json=body)
    assert answer.status_code in {200, 201, 202}, answer.text
    made: dict[str, Any] = answer.json()
    return made


def address_in(folder: Path) -> str:
    """An SQLite database in a folder."""
    return f"sqlite:///{folder}/chimera.db"
