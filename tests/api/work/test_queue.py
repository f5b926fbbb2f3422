"""Is every job done once, by a worker that can, whatever happens to workers?"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import undefer

from api.jobs import leases, queue, workers
from api.service import Service
from api.storage.tables import JobRow
from api.web.problems import ConflictProblem, NotFoundProblem, StaleLeaseProblem
from tests.api.conftest import Clock
from tests.api.work.factories import LEASE, add_job, claim_of, end, events, take, worker
from tuner.messages import (
    Cancelled,
    DeviceGroup,
    Done,
    Failed,
    Heartbeat,
    JobKind,
    JobStatus,
    Released,
)


def beat(service: Service, row: JobRow, **progress: Any) -> JobRow:
    """Send a heartbeat, past HTTP."""
    message = Heartbeat(token=row.lease_token or "", progress=progress or None)
    with service.database.writing() as session:
        return leases.heartbeat(session, row.id, message, now=service.clock(), lease=LEASE)


def find(service: Service, job_id: str) -> JobRow:
    """A job as it is stored."""
    with service.database.reading() as session:
        return session.scalars(
            select(JobRow).where(JobRow.id == job_id).options(undefer(JobRow.result))
        ).one()


def test_jobs_are_given_out_by_priority_then_age(service: Service, clock: Clock) -> None:
    """The highest first; of equal ones the oldest."""
    order = []
    for priority in (0, 5, 0, -5):
        order.append(add_job(service, priority=priority))
        clock.forward(seconds=1)
    taken = [row.id for row in iter(lambda: take(service), None)]
    assert taken == [order[1], order[0], order[2], order[3]]


GPU = DeviceGroup(accelerator="h100-80gb", count=8, memory_bytes=85 * 10**9)
CPU = DeviceGroup(accelerator="cpu", count=2, memory_bytes=8 * 10**9)


@pytest.mark.parametrize(
    ("needs", "has", "fit"),
    [
        ({}, {}, True),
        ({"devices": 2}, {"devices": (CPU,)}, True),
        ({"devices": 3}, {"devices": (CPU,)}, False),
        ({"devices": 3}, {"devices": (CPU, GPU)}, True),
        ({"devices": 3, "accelerator": "cpu"}, {"devices": (CPU, GPU)}, False),
        ({"devices": 8, "accelerator": "h100-80gb"}, {"devices": (CPU, GPU)}, True),
        ({"memory_bytes": 9 * 10**9}, {"devices": (CPU,)}, False),
        ({"memory_bytes": 9 * 10**9, "devices": 8}, {"devices": (CPU, GPU)}, True),
        ({"accelerator": "a100-80gb"}, {"devices": (GPU,)}, False),
        ({"devices": 0}, {"devices": ()}, True),
        ({"devices": 1}, {"devices": ()}, False),
        ({"kind": JobKind.TRIAL}, {"kinds": (JobKind.PROFILE_MODEL, JobKind.PROFILE_LINKS)}, False),
        ({"pool": "night"}, {"pools": ("default",)}, False),
        ({"pool": "night"}, {"pools": ("default", "night")}, True),
    ],
)
def test_a_worker_gets_only_what_it_can_do(
    service: Service, needs: dict[str, Any], has: dict[str, Any], fit: bool
) -> None:
    """By devices of one kind, their memory, kind of job and pool; the words to people agree."""
    row = find(service, add_job(service, **needs))
    able = worker(**has)
    with service.database.reading() as session:
        assert leases.there_is_work(session, able, now=service.clock()) is fit
    assert workers.fits(row, able) is fit
    assert ("free worker" in workers.needed(row, [able])) is fit
    assert (take(service, claim_of(able)) is not None) is fit


def test_many_claims_at_once_share_the_jobs(service: Service) -> None:
    """16 threads claim 40 jobs: every job has one holder, and the claims after that find none."""
    jobs = {add_job(service) for _ in range(40)}
    with ThreadPoolExecutor(16) as pool:
        rows = [row for row in pool.map(lambda _: take(service), range(56)) if row is not None]
    # Postgres may skip a locked job and answer that there is none; the next claim finds it.
    rows += iter(lambda: take(service), None)
    assert sorted(row.id for row in rows) == sorted(jobs)
    assert {row.attempts for row in rows} == {1}


def test_a_silent_worker_loses_its_job_and_cannot_write(service: Service, clock: Clock) -> None:
    """When the lease has ended another claim gets the job; all that the first one writes is refused."""
    job_id = add_job(service)
    first = take(service)
    assert first
    clock.forward(seconds=29)
    assert take(service) is None
    clock.forward(seconds=2)
    second = take(service)
    assert second
    assert (second.id, second.attempts, second.taken_from) == (job_id, 2, first.worker_id)
    for write in (
        lambda: beat(service, first),
        lambda: end(service, first, Done(result={})),
        lambda: end(service, first, Failed(message="late")),
        lambda: end(service, first, Released()),
    ):
        with pytest.raises(StaleLeaseProblem, match=r"took it over in attempt 2"):
            write()
    row, repeated = end(service, second, Done(result={}), answer=42)
    assert (row.status, row.result, repeated) == (JobStatus.DONE, {"answer": 42}, False)
    assert events(service, job_id) == ["queued", "claimed", "lease_expired", "claimed", "done"]


def test_heartbeats_keep_a_lease(service: Service, clock: Clock) -> None:
    """As long as they come nobody takes over, and people see the progress."""
    job_id = add_job(service)
    row = take(service)
    assert row
    for step in range(5):
        clock.forward(seconds=25)
        beat(service, row, step=step)
        assert take(service) is None
    beat(service, row)
    assert find(service, job_id).progress == {"step": 4}


def test_a_lease_that_ended_unnoticed_can_still_be_extended(service: Service, clock: Clock) -> None:
    """Nobody took over: the worker that comes back goes on."""
    add_job(service)
    row = take(service)
    assert row
    clock.forward(seconds=300)
    beat(service, row)
    assert take(service) is None


def test_a_repeated_claim_gets_the_same_job(service: Service) -> None:
    """A worker that did not hear the answer asks again with its token; another job is never given for it."""
    add_job(service), add_job(service)
    claim = claim_of()
    row = take(service, claim)
    assert row
    with service.database.reading() as session:
        held = leases.held_by(session, claim.token)
        assert held is not None
        assert (held.id, held.attempts) == (row.id, 1)
    end(service, row, Done(result={}))
    with service.database.reading() as session:
        assert leases.held_by(session, claim.token) is None
    with pytest.raises(IntegrityError):
        take(service, claim)


def test_a_repeated_finish_changes_nothing(service: Service, clock: Clock) -> None:
    """The first one stands, whatever the second says; it is told that it repeats."""
    add_job(service)
    row = take(service)
    assert row
    first, _ = end(service, row, Done(result={}), answer=1)
    clock.forward(seconds=60)
    _, repeated = end(service, row, Failed(message="no"), answer=2)
    assert repeated
    kept = find(service, row.id)
    assert (kept.status, kept.result, kept.finished_at) == ("done", {"answer": 1}, first.finished_at)
    assert events(service, row.id) == ["queued", "claimed", "done"]


def test_many_finishes_at_once_write_once(service: Service) -> None:
    """16 threads report with one token: one writes."""
    add_job(service)
    row = take(service)
    assert row
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda n: end(service, row, Done(result={}), answer=n), range(16)))
    assert sorted(repeated for _, repeated in answers) == [False] + [True] * 15
    assert events(service, row.id).count("done") == 1


def test_a_failed_attempt_is_repeated_until_there_are_no_more(service: Service) -> None:
    """Then the job fails, with what happened; every attempt stays visible."""
    job_id = add_job(service, max_attempts=3)
    for attempt in (1, 2, 3):
        row = take(service)
        assert row
        assert row.attempts == attempt
        end(service, row, Failed(message=f"gloo broke {attempt}", retry=True, evidence={"rank": 3}))
    assert take(service) is None
    row = find(service, job_id)
    assert row.status == JobStatus.FAILED
    assert row.error == {
        "message": "gloo broke 3",
        "evidence": {"rank": 3},
        "attempt": 3,
        "worker": row.worker_id,
    }
    assert events(service, job_id) == [
        "queued", "claimed", "attempt_failed", "claimed", "attempt_failed", "claimed", "failed",
    ]  # fmt: skip


def test_what_would_fail_again_is_not_repeated(service: Service) -> None:
    """The worker says so."""
    job_id = add_job(service)
    row = take(service)
    assert row
    end(service, row, Failed(message="the model has no layers", retry=False))
    assert take(service) is None
    assert find(service, job_id).status == JobStatus.FAILED


def test_a_job_that_ends_its_workers_fails_with_evidence(service: Service, clock: Clock) -> None:
    """After max_attempts leases that ended, nobody gets it any more."""
    job_id = add_job(service, max_attempts=2)
    for _ in range(2):
        assert take(service)
        clock.forward(seconds=31)
    assert take(service) is None
    with service.database.writing() as session:
        assert queue.settle_abandoned(session, now=service.clock()) == 1
        assert queue.settle_abandoned(session, now=service.clock()) == 0
    row = find(service, job_id)
    assert row.status == JobStatus.FAILED
    assert row.error
    assert "attempt 2 of 2" in row.error["message"]
    assert row.error["worker"] == row.worker_id
    assert events(service, job_id)[-2:] == ["lease_expired", "failed"]


def test_a_job_given_back_costs_no_attempt(service: Service) -> None:
    """A worker that is stopped releases what it holds, and another goes on at once."""
    job_id = add_job(service, max_attempts=1)
    for _ in range(3):
        row = take(service)
        assert row
        assert row.attempts == 1
        end(service, row, Released(reason="SIGTERM"))
    row = take(service)
    assert row
    end(service, row, Done(result={}))
    assert events(service, job_id).count("released") == 3


def test_a_job_that_waits_is_cancelled_at_once(service: Service) -> None:
    """Nobody gets it; cancelling it again is no error, cancelling what is done is."""
    job_id = add_job(service)
    with service.database.writing() as session:
        queue.cancel(session, job_id, now=service.clock())
        queue.cancel(session, job_id, now=service.clock())
    assert take(service) is None
    assert events(service, job_id) == ["queued", "cancelled"]
    done = add_job(service)
    row = take(service)
    assert row
    end(service, row, Done(result={}))
    with service.database.writing() as session, pytest.raises(ConflictProblem, match="done"):
        queue.cancel(session, done, now=service.clock())


@pytest.mark.parametrize(
    "outcome", [Cancelled(), Failed(message="interrupted", retry=True), Released()], ids=lambda it: it.status
)
def test_a_running_job_is_cancelled_by_its_worker(
    service: Service, outcome: Cancelled | Failed | Released
) -> None:
    """The next heartbeat tells it; it is not given out again, however the worker ends it."""
    job_id = add_job(service)
    row = take(service)
    assert row
    assert beat(service, row).cancel_requested_at is None
    with service.database.writing() as session:
        assert queue.cancel(session, job_id, now=service.clock()).status == JobStatus.RUNNING
    assert beat(service, row).cancel_requested_at is not None
    end(service, row, outcome)
    assert find(service, job_id).status == JobStatus.CANCELLED
    assert take(service) is None


def test_a_cancelled_job_whose_worker_died_is_cancelled(service: Service, clock: Clock) -> None:
    """It is not done again."""
    job_id = add_job(service)
    assert take(service)
    with service.database.writing() as session:
        queue.cancel(session, job_id, now=service.clock())
    clock.forward(seconds=31)
    assert take(service) is None
    with service.database.writing() as session:
        queue.settle_abandoned(session, now=service.clock())
    assert find(service, job_id).status == JobStatus.CANCELLED


def test_what_is_not_there_is_not_found(service: Service) -> None:
    """By heartbeat, finish and cancel."""
    row = JobRow(id="nothing", lease_token="0" * 32)
    for call in (lambda: beat(service, row), lambda: end(service, row, Cancelled())):
        with pytest.raises(NotFoundProblem, match="no job 'nothing'"):
            call()


def test_the_claim_is_one_statement(service: Service) -> None:
    """It locks the row it looks at on Postgres; SQLite has one writer at a time."""
    from sqlalchemy import event

    add_job(service)
    statements: list[str] = []
    event.listen(
        service.database.engine, "before_cursor_execute", lambda _c, _k, sql, *_: statements.append(sql)
    )
    assert take(service)
    updates = [sql for sql in statements if "UPDATE jobs" in sql]
    assert len(updates) == 1
    assert "RETURNING" in updates[0]
    assert ("FOR UPDATE SKIP LOCKED" in updates[0]) is (service.database.engine.dialect.name == "postgresql")
    with service.database.reading() as session:
        assert session.scalars(select(JobRow.status)).all() == [JobStatus.RUNNING]
