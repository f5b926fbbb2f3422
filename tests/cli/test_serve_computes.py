"""Does `chimera serve` answer while it plans, and is nothing left of what computes for it?"""

import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from urllib.parse import urlsplit

import httpx
import pytest

from tests.api.conftest import BERT, TINY
from tests.cli.command import finish
from tests.cli.test_serve_stops import served

DEEP = {"model_type": "gpt2", "n_embd": 1024, "n_layer": 2000, "n_head": 16, "vocab_size": 50257}
LONG = BERT | {
    "model": {"config": DEEP}, "sequence_length": 1024, "cluster": "dgx-h100", "devices": 2048,
    "mini_batch_size": 2048, "search": "exhaustive",
}  # fmt: skip


def computing(service: int) -> list[int]:
    """The processes that compute for a service."""
    listed = Path(f"/proc/{service}/task").glob("*/children")
    return [int(pid) for file in listed for pid in file.read_text().split()]


def wait_until_gone(processes: list[int]) -> None:
    """Return when none of them runs any more; where nobody takes orphans over their names stay."""
    for process in processes:
        state = Path(f"/proc/{process}/stat")
        while state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z":
            Event().wait(0.05)


def test_reading_goes_on_while_a_plan_is_computed(tmp_path: Path) -> None:
    """Whatever the plan takes: here it stands still until the answer to who reads has come."""
    with (
        served(tmp_path, CHIMERA_WORK_AT_ONCE="1") as (process, url),
        httpx.Client(base_url=url, trust_env=False, timeout=60) as client,
        ThreadPoolExecutor(1) as others,
    ):
        study = client.post("/v1/studies", json=TINY).json()
        (computes,) = computing(process.pid)
        os.kill(computes, signal.SIGSTOP)
        plan = others.submit(client.post, "/v1/plans", json=TINY)
        while "chimera_http_requests_in_progress 2" not in client.get("/metrics").text:
            Event().wait(0.05)
        assert client.get(study["links"]["self"]).status_code == 200
        assert not plan.done()
        os.kill(computes, signal.SIGCONT)
        assert plan.result().status_code == 200


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_outlives_the_service(tmp_path: Path, how: signal.Signals) -> None:
    """One that computes and one that waits end with it, and its port is free."""
    with (
        served(tmp_path, CHIMERA_WORK_AT_ONCE="2", CHIMERA_SHUTDOWN_SECONDS="1") as (process, url),
        httpx.Client(base_url=url, trust_env=False, timeout=60) as client,
        ThreadPoolExecutor(2) as others,
    ):
        plans = [others.submit(client.post, "/v1/plans", json=LONG) for _ in range(2)]
        while len(processes := computing(process.pid)) < 2:
            Event().wait(0.05)
        process.send_signal(how)
        assert finish(process).code == (0 if how is signal.SIGTERM else -how)
        wait_until_gone(processes)
        address = urlsplit(url)
        socket.create_server((str(address.hostname), int(address.port or 0))).close()
        for plan in plans:
            with suppress(httpx.TransportError):
                assert plan.result().status_code == 503
