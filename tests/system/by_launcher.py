"""What must hold of `chimera tune` and `chimera worker`, whichever cluster starts the ranks?"""

import json
import signal
from collections.abc import Callable
from pathlib import Path

from profiles.measurement import Measurements
from tests.cli.command import finish, start
from tests.executor.worker.factories import EMULATED
from tests.system.site import Site, finished, until

WAIT_S = 240.0
_TUNE = ("--model", "tiny-gpt", "--cluster", "local-cpu", "--devices", "2", "--mini-batch-size", "4")


def check_tuning(launcher: str, *options: str, folder: Path, environment: dict[str, str]) -> None:
    """Two trials run there, the fastest is chosen, and what is kept says who started the ranks."""
    few = ("--schedules", "dapple,gpipe", "--trials", "2", "-o", "kept.json", "--json")
    words = ("tune", "--launcher", launcher, *options, *_TUNE, *few)
    result = finish(start(*words, cwd=folder, environment=environment), timeout=WAIT_S)
    assert result.code == 0, result.err
    told = json.loads(result.out)
    assert [trial["status"] for trial in told["trials"]] == ["ok", "ok"], told["trials"]
    fastest = min(told["trials"], key=lambda trial: trial["measured"])
    assert fastest["configuration"] == told["winner"]
    kept = Measurements.from_json((folder / "kept.json").read_bytes(), name="kept.json").measurements
    assert len(kept) == 2
    assert {(row.where or "").rpartition("launcher ")[2] for row in kept} == {launcher}


def check_worker(
    service: Site, launcher: str, *options: str, environment: dict[str, str], ranks: Callable[[], int]
) -> None:
    """Of a service's trials it runs one, and stops another that is cancelled; asked to leave, it does."""
    service.start_api()
    words = ("worker", "--url", service.url, "--launcher", launcher, *options, "--poll", "1", "--json")
    has = ("--accelerator", "cpu", "--devices", "4")
    environment = environment | {"CHIMERA_API_KEY": service.worker_key}
    worker = start(*words, *has, cwd=service.folder, environment=environment)
    try:
        with service.client() as client:
            first = service.add(payload=EMULATED)
            done = until(lambda: finished(client.job(first)), what="the first trial ends")
            assert (done.status, (done.result or {}).get("status")) == ("done", "ok"), done
            second = service.add(payload=EMULATED | {"iterations": 5000})
            until(lambda: ranks() == 2, what="the ranks of the second run")
            client.cancel_job(second)
            stopped = until(lambda: finished(client.job(second)), what="the second trial stops")
            assert stopped.status == "cancelled"
        worker.send_signal(signal.SIGTERM)
        result = finish(worker, timeout=WAIT_S)
    finally:
        worker.kill()
    assert result.code == 0, result.err
    assert json.loads(result.out)["jobs"] == {"done": 1, "cancelled": 1}
