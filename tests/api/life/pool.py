"""What do tests of measured studies need? Workers that answer at once, without measuring anything."""

from dataclasses import dataclass, field
from typing import Any

from starlette.testclient import TestClient

from api.service import Service
from api.studies import progress
from profiles import library
from tests.api.conftest import TINY
from tests.api.work.factories import claim_of, client_with, post_claim, post_finish, worker
from tuner.estimate import describe
from tuner.messages import Done, Outcome, WorkerInventory

MEASURED: dict[str, Any] = TINY | {"mini_batch_size": 16, "refine": {"trials": 3}}
LINK = {
    "p2p": {"latency_s": 1e-4, "bandwidth_bytes_per_s": 2e9},
    "collective": {"latency_s": 1e-4, "bandwidth_bytes_per_s": 1e9},
    "provenance": "measured",
    "source": "a test",
    "fits": [
        {
            "operation": "p2p", "processes": 2, "residual": 0.1, "largest_residual": 0.2,
            "transfer": {"latency_s": 1e-4, "bandwidth_bytes_per_s": 2e9},
            "points": [
                {"message_bytes": size, "seconds": size * 1e-9, "spread": 0.1, "repeats": 3}
                for size in (1_000, 10_000)
            ],
        }
    ],
}  # fmt: skip


@dataclass
class Pool:
    """Workers of one service; `wrong` jobs, by kind, end otherwise."""

    service: Service
    wrong: dict[str, Outcome] = field(default_factory=dict)
    done: list[dict[str, Any]] = field(default_factory=list)
    """Jobs that were claimed, in that order."""

    def __post_init__(self) -> None:
        self.client: TestClient = client_with(self.service, "work", owner="gpu-host")
        self.worker: WorkerInventory = worker()

    def connect(self) -> None:
        """Be there, without a job."""
        assert post_claim(self.client, claim_of(self.worker)).status_code == 204

    def claim(self) -> dict[str, Any] | None:
        """The next job."""
        answer = post_claim(self.client, claim_of(self.worker))
        job: dict[str, Any] | None = answer.json() if answer.status_code == 200 else None
        if job is not None:
            self.done.append(job)
        return job

    def finish(self, job: dict[str, Any]) -> None:
        """Answer a job, and let its study get on."""
        outcome = self.wrong.get(job["kind"]) or Done(result=result_of(job))
        answer = post_finish(self.client, job, outcome)
        assert answer.status_code == 200, answer.text

    def work(self, jobs: int = 100) -> int:
        """Do so many jobs, or all there are; returns how many."""
        for count in range(jobs):
            job = self.claim()
            if job is None:
                return count
            self.finish(job)
        return jobs

    def kinds(self) -> list[str]:
        """What was claimed."""
        return [job["kind"] for job in self.done]

    def points(self) -> list[str]:
        """The configurations that were tried."""
        return [str(job["payload"]["configuration"]) for job in self.done if job["kind"] == "trial"]


def result_of(job: dict[str, Any]) -> dict[str, Any]:
    """What a worker would tell; every trial takes twice as long as its rank in the study."""
    if job["kind"] == "profile_model":
        return {"profile": profile()}
    if job["kind"] == "profile_links":
        return {"links": [{"scope": "node", "link": LINK, "residual": 0.1}]}
    seconds = 0.1 + 0.01 * job["payload"].get("number", 0)
    return {
        "status": "ok",
        "measured_iteration_s": {"median": seconds, "p10": seconds, "p90": seconds},
        "peak_memory_bytes": [1_000, 2_000],
        "elapsed_s": 3.0,
        "machine_quiet": True,
    }


def profile() -> dict[str, Any]:
    """tiny-gpt as a worker with processors would measure it."""
    preset = library.load_model_preset("tiny-gpt")
    shape = {"sequence_length": 64, "precision": "float32", "attention": "flash"}
    description = describe(preset.config, name="tiny-gpt", **shape)  # type: ignore[arg-type]
    points = [
        {"micro_batch_size": size, "forward_s": 0.001 * size**0.9, "backward_s": 0.002 * size**0.9}
        for size in (1, 2, 4, 8, 16)
    ]
    types = sorted({layer.type for layer in description.layers})
    timings = shape | {
        "schema_version": 1,
        "name": "round",
        "accelerator": "cpu",
        "software": "none",
        "types": [{"type": name, "provenance": "measured", "points": points} for name in types],
    }
    return {
        "schema_version": 1,
        "description": description.model_dump(mode="json", exclude_none=True),
        "timings": timings,
    }


def settle(service: Service) -> None:
    """Let every study get on as far as it can."""
    progress.sweep(service)
