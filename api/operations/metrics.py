"""What does this process count? Requests, plans and trials, since it was started.

Several processes on one Postgres are scraped one by one: their counts add up. What the database holds is the
same wherever it is asked for (`api.operations.figures`), and does not.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, disable_created_metrics
from prometheus_client.process_collector import ProcessCollector

# When a series began is no news, and would be a series of its own.
disable_created_metrics()  # type: ignore[no-untyped-call]
REGISTRY = CollectorRegistry()

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

REQUESTS = Counter(
    "chimera_http_requests",
    "Requests that were answered.",
    ["method", "route", "status"],
    registry=REGISTRY,
)
LATENCY = Histogram(
    "chimera_http_request_duration_seconds",
    "From the first byte of a request to the last one of its answer; claims and events wait on purpose.",
    ["method", "route"],
    buckets=BUCKETS_S,
    registry=REGISTRY,
)
IN_PROGRESS = Gauge("chimera_http_requests_in_progress", "Requests being answered now.", registry=REGISTRY)
PLANS = Histogram(
    "chimera_plan_duration_seconds",
    "Time for a plan, by what came out: chosen, nothing_fits or refused.",
    ["outcome"],
    buckets=BUCKETS_S,
    registry=REGISTRY,
)
TRIALS = Counter(
    "chimera_trials", "Trials of studies that ended, by how they did.", ["status"], registry=REGISTRY
)
DATABASE_ERRORS = Counter(
    "chimera_database_errors",
    "Requests answered with 503 because the database did not answer.",
    registry=REGISTRY,
)
TIDYING_FAILED = Counter(
    "chimera_tidying_failures", "Times the upkeep did not get through; its log tells why.", registry=REGISTRY
)
COMPUTING_ENDED = Counter(
    "chimera_computing_processes_ended",
    "Processes that computed and were ended: late, with their request, or died.",
    ["reason"],
    registry=REGISTRY,
)

Info("chimera_build", "The release that runs.", registry=REGISTRY).info({"version": version("chimera-tuner")})
ProcessCollector(registry=REGISTRY)


def count_request(method: str, route: str, *, status: str, duration_s: float) -> None:
    """One request more."""
    REQUESTS.labels(method, route, status).inc()
    LATENCY.labels(method, route).observe(duration_s)


@dataclass
class TimedPlan:
    """A plan that is being made."""

    outcome: str = "refused"


@contextmanager
def timed_plan() -> Iterator[TimedPlan]:
    """Time one plan; what raises was refused."""
    plan, began = TimedPlan(), perf_counter()
    try:
        yield plan
    finally:
        PLANS.labels(plan.outcome).observe(perf_counter() - began)
