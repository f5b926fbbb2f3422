"""Does `chimera worker` do the jobs of a service, whatever happens to either of them?"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from executor.launchers.processes import descendants
from profiles.library import load_cluster
from tests.cli.command import CHIMERA
from tests.executor.worker.factories import EMULATED, TINY
from tests.system.site import PATIENCE_S, Site, finished, kill, until
from tuner.assignments import ProfileJobRequest
from tuner.client import ServiceClient
from tuner.job_documents import JobDocument
from tuner.messages import JobKind

pytestmark = pytest.mark.slow

QUICK = ("--budget", "0.01", "--poll", "1", "--json")
ASKED = ProfileJobRequest.model_validate_json(
    json.dumps({"model": TINY, "sequence_length": 16, "precision": "float32", "micro_batch_sizes": [1, 2]})
)


def measured_links() -> dict[str, Any]:
    """A cluster whose links are known, so that a study need not measure them."""
    cluster = load_cluster("local-cpu").model_dump(mode="json", exclude_none=True)
    cluster["node"]["link"]["provenance"] = "measured"
    return {"document": cluster}


def lasting(seconds: float) -> dict[str, Any]:
    """An emulated trial that runs for so long, after its processes have started."""
    return EMULATED | {"emulate": {"forward_s": 0.02, "backward_s": 0.03}, "iterations": int(seconds / 0.2)}


def start_worker(site: Site, *options: str, script: tuple[str, ...] = CHIMERA) -> subprocess.Popen[str]:
    """`chimera worker`, with its log beside the service's."""
    site.started += 1
    with (site.folder / f"worker-{site.started}.err").open("w") as log:
        worker = subprocess.Popen(
            [*script, "worker", "--url", site.url, *QUICK, *options],
            cwd=site.folder,
            env=os.environ | {"CHIMERA_API_KEY": site.worker_key},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    site.workers.append(worker)
    return worker


def leave(worker: subprocess.Popen[str]) -> dict[str, int]:
    """Ask a worker to leave; how many jobs it ended how."""
    worker.send_signal(signal.SIGTERM)
    out, _ = worker.communicate(timeout=PATIENCE_S)
    assert worker.returncode == 0
    tally: dict[str, int] = json.loads(out)["jobs"]
    return tally


def refusal(site: Site, worker: subprocess.Popen[str]) -> str:
    """What a worker says that cannot work; it ends with 3 by itself."""
    worker.communicate(timeout=PATIENCE_S)
    assert worker.returncode == 3
    return (site.folder / f"worker-{site.started}.err").read_text().splitlines()[-1]


def running(client: ServiceClient, job_id: str) -> JobDocument:
    """The job, once its processes are at work and have said so."""
    return until(lambda: told(client.job(job_id)), what=f"job {job_id} runs")


def told(job: JobDocument) -> JobDocument | None:
    """The job, if its worker told how far it is."""
    return job if job.progress else None


def ended(client: ServiceClient, job_id: str) -> JobDocument:
    """The job, once it has ended."""
    return until(lambda: finished(client.job(job_id)), what=f"job {job_id} ends")


@pytest.mark.parametrize("site", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)], indirect=True)
def test_a_model_is_measured_once_and_a_study_tries_it(site: Site) -> None:
    """A config.json that nobody has seen becomes a profile, which a study finds: it only runs its trial."""
    site.start_api()
    worker = start_worker(site)
    with site.client() as client:
        first = client.profile_model(ASKED)
        measured = ended(client, first.id)
        assert measured.status == "done", measured
        assert client.profile_model(ASKED).id == first.id
        profile = (measured.result or {})["profile"]
        asked = ASKED.model_dump(mode="json", include={"model", "sequence_length", "precision"})
        layout = {"cluster": measured_links(), "devices": 2, "mini_batch_size": 4} | {
            "depth": 2,
            "refine": {"trials": 1},
        }
        study = client.call("POST", "/v1/studies", body=asked | layout).json()
        done = until(lambda: final(client.call("GET", study["links"]["self"]).json()), what="the study ends")
        assert done["status"] == "done", done["error"]
        assert profile in json.dumps(done["plan"]["provenance"])
        assert done["plan"]["chosen"]["predicted"]["iteration_s"] > 0
        (trial,) = client.jobs(study_id=study["id"])
        document = client.job(trial.id)
        assert (document.status, (document.result or {})["status"]) == ("done", "ok"), document
        traces = [entry for entry in document.attachments if entry.name == "trace.json"]
        events = client.call("GET", traces[0].link).json()["traceEvents"]
        assert {"rank 0 measured", "rank 1 predicted"} <= {
            event["args"]["name"] for event in events if event["name"] == "process_name"
        }
        (known,) = client.workers()
        assert {"cpu"} == {group.accelerator for group in known.devices}
    assert leave(worker) == {"done": 2}


def final(study: dict[str, Any]) -> dict[str, Any] | None:
    """The study, once it has ended."""
    return study if study["status"] in {"done", "failed", "cancelled"} else None


def test_a_worker_that_is_asked_to_leave_finishes_its_job(sqlite_site: Site) -> None:
    """And takes no other one; asked twice, it gives its job back at no cost."""
    site = sqlite_site
    site.start_api()
    worker = start_worker(site)
    first, second = site.add(payload=lasting(3)), site.add(payload=lasting(100))
    with site.client() as client:
        running(client, first)
        assert leave(worker) == {"done": 1}
        assert client.job(second).status == "queued"
        worker = start_worker(site)
        running(client, second)
        worker.send_signal(signal.SIGINT)
        assert leave(worker) == {"released": 1}
        given_back = client.job(second)
        assert (given_back.status, given_back.attempts) == ("queued", 0)


def test_another_worker_takes_over_from_one_that_is_killed(sqlite_site: Site) -> None:
    """Nothing of the dead one's goes on."""
    site = sqlite_site
    site.start_api()
    first = start_worker(site)
    job_id = site.add(payload=lasting(2))
    with site.client() as client:
        running(client, job_id)
        # The job, a supervisor, an agent, a fork server, and two processes for each rank.
        left = until(lambda: below(first, 8), what="the ranks run")
        kill(first)
        until(
            lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in left), what="its processes end"
        )
        second = start_worker(site)
        done = ended(client, job_id)
    assert (done.status, done.attempts) == ("done", 2)
    assert [entry.event for entry in done.history] == [
        "queued", "claimed", "lease_expired", "claimed", "done",
    ]  # fmt: skip
    assert leave(second) == {"done": 1}


def below(worker: subprocess.Popen[str], least: int) -> list[int]:
    """The processes that a worker has started, once there are so many."""
    found = descendants(worker.pid)
    return found if len(found) >= least else []


def test_a_job_whose_process_dies_three_times_fails_with_the_evidence(sqlite_site: Site) -> None:
    """The worker outlives it, and goes on with the next one."""
    site = sqlite_site
    site.start_api()
    worker = start_worker(site)
    job_id = site.add(payload=lasting(100), max_attempts=3)
    with site.client() as client:
        for attempt in (1, 2, 3):
            until(lambda attempt=attempt: client.job(job_id).attempts == attempt, what=f"attempt {attempt}")
            child = until(lambda: child_of(worker), what="the process of the job")
            os.kill(child, signal.SIGKILL)
            until(lambda child=child: not Path(f"/proc/{child}").exists(), what="it is collected")
        failed = ended(client, job_id)
        assert failed.status == "failed"
        assert failed.error
        assert "SIGKILL" in failed.error["message"]
        assert failed.error["evidence"]["signal"] == "SIGKILL"
        assert failed.error["attempt"] == 3
        assert [entry.event for entry in failed.history].count("attempt_failed") == 2
        next_id = site.add(payload=EMULATED)
        assert ended(client, next_id).status == "done"
    assert leave(worker) == {"queued": 2, "failed": 1, "done": 1}


def child_of(worker: subprocess.Popen[str]) -> int | None:
    """The process in which a worker does its job."""
    for pid in descendants(worker.pid):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"executor.worker.child" in command:
            return pid
    return None


@pytest.mark.long
def test_a_job_that_kills_its_worker_three_times_ends_failed(sqlite_site: Site) -> None:
    """What the last one told before it fell silent is the evidence."""
    site = sqlite_site
    site.start_api()
    job_id = site.add(payload=lasting(100), max_attempts=3)
    with site.client() as client:
        for attempt in (1, 2, 3):
            worker = start_worker(site)
            until(lambda attempt=attempt: client.job(job_id).attempts == attempt, what=f"attempt {attempt}")
            running(client, job_id)
            kill(worker)
        failed = ended(client, job_id)
    assert failed.status == "failed"
    assert failed.error
    assert failed.error["attempt"] == 3
    assert failed.error["worker"] == failed.worker
    assert "2 processes" in failed.error["evidence"]["progress"]["doing"]
    assert [entry.event for entry in failed.history].count("lease_expired") == 3


def test_a_cancelled_job_leaves_no_process(sqlite_site: Site) -> None:
    """Its worker stops it with the next heartbeat, and goes on."""
    site = sqlite_site
    site.start_api()
    worker = start_worker(site)
    job_id = site.add(kind=JobKind.TRIAL, payload=lasting(100))
    with site.client() as client:
        running(client, job_id)
        assert descendants(worker.pid)
        client.cancel_job(job_id)
        assert ended(client, job_id).status == "cancelled"
    assert descendants(worker.pid) == []
    assert leave(worker) == {"cancelled": 1}


def test_a_worker_rides_out_a_service_that_ends(sqlite_site: Site) -> None:
    """Restarted by its operator, then killed: the job goes on meanwhile, and is done by the same attempt."""
    site = sqlite_site
    site.start_api()
    worker = start_worker(site)
    job_id = site.add(payload=lasting(6))
    with site.client() as client:
        running(client, job_id)
        site.restart_api()
        site.kill_api()
        site.start_api()
        assert client.job(job_id).status == "running"
        done = ended(client, job_id)
        assert (done.status, done.attempts) == ("done", 1), done
    assert leave(worker) == {"done": 1}


def test_a_service_with_a_worker_is_one_command(sqlite_site: Site) -> None:
    """Its worker needs no key of anybody, is started again when it ends, and ends with the service."""
    site = sqlite_site
    site.start_api("--with-worker")
    assert site.api
    job_id = site.add(payload=EMULATED)
    with site.client() as client:
        first = ended(client, job_id)
        assert first.status == "done", first
        (pid,) = [pid for pid in descendants(site.api.pid) if b"--beside" in command_of(pid)]
        os.kill(pid, signal.SIGKILL)
        second = ended(client, site.add(payload=EMULATED))
        assert second.status == "done"
        assert second.worker != first.worker
        started = descendants(site.api.pid)
        assert started
        site.kill_api()
        until(lambda: not any(command_of(pid) for pid in started), what="the worker ends with the service")


def command_of(pid: int) -> bytes:
    """How a process was started; nothing when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_worker_that_is_not_wanted_says_why(sqlite_site: Site) -> None:
    """A key that is not known, a release that is too old, and nobody at all: each ends it with 3."""
    site = sqlite_site
    site.start_api()
    old = (
        "from tuner.messages import Claim; Claim.model_fields['protocol'].default = 0; "
        "Claim.model_rebuild(force=True); from cli.main import main; main()"
    )
    too_old = start_worker(site, script=(sys.executable, "-P", "-c", old))
    assert "upgrade chimera-tuner on the worker" in refusal(site, too_old)
    site.worker_key = "chimera_unknown"
    assert "the key is not known" in refusal(site, start_worker(site))
    site.kill_api()
    assert "did not answer for 1 s" in refusal(site, start_worker(site, "--patience", "1"))
