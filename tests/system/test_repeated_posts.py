"""Is every study made once, whoever is killed, and however many processes of the service there are?"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Barrier, Event
from time import monotonic
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select

from api.storage.tables import Study
from tests.api.conftest import BERT, TINY
from tests.system.site import PATIENCE_S, Site, open_site, until

AT_ONCE = 64


def post(site: Site, key: str, body: dict[str, Any], *, api_key: str | None = None) -> dict[str, Any]:
    """Ask for a study until it is answered, as a client does whose service is busy, away or killed."""
    headers = {"Authorization": f"Bearer {api_key or site.admin_key}", "Idempotency-Key": key}
    end, pause = monotonic() + PATIENCE_S, Event()
    while monotonic() < end:
        try:
            answer = httpx.post(f"{site.url}/v1/studies", json=body, headers=headers, timeout=PATIENCE_S)
        except httpx.TransportError:
            pause.wait(0.5)
            continue
        if answer.status_code == 201:
            made: dict[str, Any] = answer.json()
            return made
        assert answer.status_code in {409, 503}, answer.text
        pause.wait(float(answer.headers["retry-after"]))
    raise TimeoutError(f"no answer for {key} within {PATIENCE_S} s")


def studies(site: Site) -> int:
    """How many there are."""
    with site.database.reading() as session:
        return session.scalar(select(func.count()).select_from(Study)) or 0


@pytest.mark.long
def test_many_at_once_make_one_study_also_when_the_service_is_killed(site: Site) -> None:
    """64 posts with one key; the service is killed while it works on the first, and started again."""
    site.start_api()
    together = Barrier(AT_ONCE + 1)

    def ask(_: int) -> str:
        together.wait()
        return str(post(site, "night-run", BERT)["id"])

    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = [pool.submit(ask, number) for number in range(AT_ONCE)]
        together.wait()
        until(lambda: reserved(site), what="the first is being answered", every_s=0.01)
        site.kill_api()
        assert studies(site) == 0
        site.start_api()
        made = {answer.result() for answer in asked}
    assert len(made) == 1
    assert studies(site) == 1


def reserved(site: Site) -> bool:
    """Whether a request holds its key."""
    from api.storage.tables import IdempotencyKey

    with site.database.reading() as session:
        return session.scalar(select(IdempotencyKey.key).limit(1)) is not None


@contextmanager
def two_processes(address: str, folder: Path) -> Iterator[list[Site]]:
    """Two services on one database."""
    with ExitStack() as stack:
        sites = []
        for name in ("one", "other"):
            (folder / name).mkdir()
            site = stack.enter_context(contextmanager(open_site)(address, folder / name))
            site.start_api()
            sites.append(site)
        yield sites


def test_two_processes_on_one_database_make_every_study_once(postgres_url: str, tmp_path: Path) -> None:
    """Eight clients post each of twelve keys to both at the same moment; another API key has its own."""
    with two_processes(postgres_url, tmp_path) as sites, ThreadPoolExecutor(8) as pool:
        keys = [f"key-{number}" for number in range(12)]
        calls = [(sites[at], key) for key in keys for at in (0, 1, 0, 1)]
        asked = [pool.submit(post, site, key, TINY, api_key=sites[0].admin_key) for site, key in calls]
        made: dict[str, set[str]] = {key: set() for key in keys}
        for (_, key), answer in zip(calls, asked, strict=True):
            made[key].add(answer.result()["id"])
        assert [len(ids) for ids in made.values()] == [1] * len(keys)
        assert studies(sites[0]) == len(keys)
        other = post(sites[0], keys[0], TINY, api_key=sites[1].admin_key)
        assert other["id"] not in set.union(*made.values())
        found = httpx.get(
            f"{sites[1].url}{other['links']['self']}",
            headers={"Authorization": f"Bearer {sites[1].admin_key}"},
        )
        assert found.json()["id"] == other["id"]
