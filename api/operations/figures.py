"""What does the database hold, in numbers? Read when it is scraped; the same in every process that asks."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from api.jobs.workers import SILENCE
from api.operations.metrics import REGISTRY
from api.operations.readiness import free_bytes
from api.service import Service
from api.storage.tables import JobRow, Study, StudyStatus, WorkerRow
from tuner.messages import JobKind, JobStatus

_WAITING = (JobStatus.QUEUED, JobStatus.RUNNING)


class Scrape:
    """What a scrape gets: the counts of this process, and the figures of the database if it answered."""

    def __init__(self, figures: Iterable[Metric] | None) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """In the order in which they are shown."""
        yield from REGISTRY.collect()
        up = GaugeMetricFamily("chimera_database_up", "Whether the database answered this scrape.")
        up.add_metric([], float(self._figures is not None))
        yield up
        yield from self._figures or ()


def read_figures(service: Service) -> list[Metric]:
    """All figures, as of one moment; raises SQLAlchemyError when the database does not answer.

    Each query reads an index, and none reads plans or results: 100,000 studies take some 10 ms.
    """
    now = service.clock()
    with service.database.reading() as session:
        return [
            *_jobs(session, now),
            _workers(session, now),
            _studies(session),
            *_size(session, free=free_bytes(service.database.engine)),
        ]


def _jobs(session: Session, now: datetime) -> list[Metric]:
    query = (
        select(JobRow.kind, JobRow.status, func.count(), func.min(JobRow.created_at))
        .where(JobRow.status.in_(_WAITING))
        .group_by(JobRow.kind, JobRow.status)
    )
    found = {(kind, status): (count, since) for kind, status, count, since in session.execute(query)}
    jobs = GaugeMetricFamily("chimera_jobs", "Jobs that have not ended.", labels=["kind", "status"])
    oldest = GaugeMetricFamily(
        "chimera_oldest_queued_job_age_seconds", "How long the oldest job waits; 0 for none.", labels=["kind"]
    )
    for kind in JobKind:
        for status in _WAITING:
            jobs.add_metric([kind, status], found.get((kind, status), (0, None))[0])
        since = found.get((kind, JobStatus.QUEUED), (0, now))[1]
        oldest.add_metric([kind], max(0.0, (now - since).total_seconds()))
    return [jobs, oldest]


def _workers(session: Session, now: datetime) -> Metric:
    connected = select(func.count()).select_from(WorkerRow).where(WorkerRow.last_seen_at > now - SILENCE)
    all_of_them = session.scalar(select(func.count()).select_from(WorkerRow)) or 0
    live = session.scalar(connected) or 0
    workers = GaugeMetricFamily(
        "chimera_workers",
        f"Workers; one that was not heard of for {SILENCE.total_seconds():.0f} s is silent.",
        labels=["status"],
    )
    workers.add_metric(["connected"], live)
    workers.add_metric(["silent"], max(0, all_of_them - live))
    return workers


def _studies(session: Session) -> Metric:
    query = select(Study.status, func.count()).group_by(Study.status)
    counted = dict(session.execute(query).all())
    studies = GaugeMetricFamily("chimera_studies", "Studies that are kept.", labels=["status"])
    for status in StudyStatus:
        studies.add_metric([status], counted.get(status, 0))
    return studies


def _size(session: Session, *, free: int | None) -> Iterator[Metric]:
    on_server = session.get_bind().dialect.name == "postgresql"
    query = (
        "SELECT pg_database_size(current_database())"
        if on_server
        else "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    )
    size = GaugeMetricFamily("chimera_database_size_bytes", "What the database takes on disk.")
    size.add_metric([], session.scalar(text(query)) or 0)
    yield size
    if free is not None:
        room = GaugeMetricFamily(
            "chimera_database_free_bytes", "What is left on the disk of the SQLite file."
        )
        room.add_metric([], free)
        yield room
