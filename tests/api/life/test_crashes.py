"""Does a study end right when the service is killed between any two steps, and when several move it on?"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from threading import Thread
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from api.service import Service
from api.storage.database import Database
from api.storage.tables import JobRow, Study, StudyEvent, StudyTrial
from api.studies import progress
from tests.api.conftest import Clock, connect
from tests.api.life.pool import MEASURED, Pool, settle
from tuner.messages import JobKind

TRIALS = 2


class KilledError(BaseException):
    """The process is no more."""


class Mortal(Database):
    """A database whose process dies at one of the transactions that it writes: just before it, or after."""

    def __init__(self, database: Database, *, when: str) -> None:
        super().__init__(database.engine)
        self.when = when
        self.left = 0
        """Transactions that the process lives through."""
        self.deaths = 0

    def rise(self, lives: int) -> None:
        """A new process."""
        self.left = lives

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Count, and die."""
        self.left -= 1
        with super().writing() as session:
            yield session
            if self.when == "before":
                self._live_or_die()
        if self.when == "after":
            self._live_or_die()

    def _live_or_die(self) -> None:
        if self.left < 0:
            self.deaths += 1
            raise KilledError


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_study_survives_being_killed_at_every_write(
    service: Service, clock: Clock, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it or after it: the next sweep goes on, no job is made twice, and no point is tried twice."""
    pool = Pool(service)
    pool.connect()
    client = connect(service)
    study = client.post("/v1/studies", json=MEASURED | {"refine": {"trials": TRIALS}}).json()
    mortal = Mortal(service.database, when=when)
    fragile = replace(service, database=mortal)

    def go_on() -> None:
        # Each process lives through one transaction more than the one before.
        for lives in count():
            mortal.rise(lives)
            try:
                progress.advance(fragile, study["id"])
            except KilledError:
                clock.forward(seconds=61)
            else:
                return

    monkeypatch.setattr(progress, "advance_after", lambda _service, _job: None)
    while (job := pool.claim()) is not None:
        pool.finish(job)
        go_on()
    assert mortal.deaths > 8
    check(service, client.get(study["links"]["self"]).json(), trials=TRIALS)


def test_a_study_that_is_planned_when_the_service_stops_goes_on_in_the_next(
    sqlite_service: Service, clock: Clock
) -> None:
    """It stays where it is, and does not fail of it."""
    settings = sqlite_service.settings.model_copy(update={"work_in": "processes"})
    stopping = replace(sqlite_service, settings=settings)
    stopping.computing.close()
    pool, client = Pool(stopping), connect(sqlite_service)
    pool.connect()
    study = client.post("/v1/studies", json=MEASURED).json()["links"]["self"]
    assert pool.work() == 2
    assert client.get(study).json()["status"] == "searching"
    clock.forward(seconds=61)
    settle(sqlite_service)
    assert client.get(study).json()["status"] == "measuring"


def waits(service: Service, study_id: str) -> bool:
    """Whether the study has not ended."""
    with service.database.reading() as session:
        return session.get_one(Study, study_id).status not in {"done", "failed", "cancelled"}


def check(service: Service, study: dict[str, Any], *, trials: int) -> None:
    """It is done, with one job for everything that had to be measured, and its events in order."""
    assert (study["status"], study["error"]) == ("done", None)
    assert len(study["tuning"]["trials"]) == trials
    with service.database.reading() as session:
        kinds = dict(session.execute(select(JobRow.kind, func.count()).group_by(JobRow.kind)).all())
        points = session.scalars(select(StudyTrial.point)).all()
        numbers = session.scalars(select(StudyEvent.number).order_by(StudyEvent.number)).all()
    assert kinds == {JobKind.PROFILE_MODEL: 1, JobKind.PROFILE_LINKS: 1, JobKind.TRIAL: trials}
    assert len(set(points)) == trials
    assert list(numbers) == list(range(1, len(numbers) + 1))


def test_replicas_side_by_side_give_no_point_twice(service: Service) -> None:
    """Three of them sweep all the time while four workers claim and finish."""
    pools = [Pool(service) for _ in range(4)]
    for pool in pools:
        pool.connect()
    client = connect(service)
    study = client.post("/v1/studies", json=MEASURED | {"refine": {"trials": 8}}).json()
    faults: list[BaseException] = []

    def keep(what: Any) -> None:
        try:
            while waits(service, study["id"]):
                what()
        except BaseException as error:  # noqa: BLE001  # told by the test
            faults.append(error)

    threads = [Thread(target=keep, args=(lambda: settle(service),)) for _ in range(3)]
    threads += [Thread(target=keep, args=(lambda pool=pool: pool.work(1),)) for pool in pools]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert faults == []
    check(service, client.get(study["links"]["self"]).json(), trials=8)
