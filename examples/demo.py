"""What does the tuner do? Three plans on the command line, then the same over REST with their report pages.

Run it with `make demo`. Reports are left in demo-output/, or in the folder given as argument.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[1]
LLAMA = ROOT / "examples" / "llama-3-8b" / "config.json"
CHIMERA = (sys.executable, "-P", "-m", "cli.main")
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 20

REQUESTS: dict[str, dict[str, Any]] = {
    "bert-48": {"model": "bert-48", "cluster": "piz-daint", "devices": 32, "mini_batch_size": 512},
    "gpt2-64": {"model": "gpt2-64", "cluster": "piz-daint", "devices": 512, "mini_batch_size": 512},
    "llama-3-8b": {
        "model": LLAMA,
        "cluster": "dgx-h100",
        "devices": 64,
        "mini_batch_size": 512,
        "sequence_length": 8192,
        "precision": "bfloat16",
        "optimizer": "adam",
        "optimizer_sharding": "replicas",
    },
}


class DemoError(Exception):
    """A step did not do what it should."""


def main(output: Path) -> int:
    """Plan, serve, submit, save the reports in `output`, and stop; returns the exit code."""
    # Being asked to stop is an ordinary way out: the service ends with the demo.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        for request in REQUESTS.values():
            plan(request)
        output.mkdir(exist_ok=True)
        with service() as url, httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
            saved = [
                save_report(client, output / f"{name}.html", request) for name, request in REQUESTS.items()
            ]
    except (DemoError, OSError, httpx.HTTPError) as error:
        print(f"The demo failed: {error}", file=sys.stderr)
        return 1
    print("\nThe service is stopped. Reports, to open in a browser:")
    for path in saved:
        print(f"  {path}")
    return 0


def plan(request: dict[str, Any]) -> None:
    """Print what `chimera plan` answers."""
    options = [f"--{name.replace('_', '-')}={value}" for name, value in request.items()]
    shown = [option.replace(f"{ROOT}/", "") for option in options]
    print(f"\n$ chimera plan {shlex.join(shown)}\n", flush=True)
    code = subprocess.run([*CHIMERA, "plan", *options], check=False, timeout=120).returncode
    if code != 0:
        raise DemoError(f"`chimera plan` for {request['model']} left with exit code {code}")


@contextmanager
def service() -> Iterator[str]:
    """The address of a service on a free port with a database of its own; it is stopped whatever happens."""
    with tempfile.TemporaryDirectory(prefix="chimera-demo-") as folder:
        database = f"sqlite:///{folder}/chimera.db"
        command = [*CHIMERA, "serve", "--port", "0", "--json", "--database-url", database]
        print("\n$ chimera serve --port 0")
        quiet = {**os.environ, "CHIMERA_LOG_LEVEL": "warning"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=quiet)
        try:
            url = wait_until_healthy(process)
            print(f"Listening on {url}")
            yield url
        finally:
            stop(process)


def wait_until_healthy(process: subprocess.Popen[str]) -> str:
    """The service's address, once it answers there."""
    watchdog = threading.Timer(START_TIMEOUT_S, process.kill)
    watchdog.start()
    try:
        line = process.stdout.readline() if process.stdout else ""
        if not line:
            raise DemoError(f"`chimera serve` ended with exit code {process.wait()} before it listened")
        url = str(json.loads(line)["url"])
        # The port is open by now, so the request waits in its queue until the service reads it.
        httpx.get(f"{url}/healthz", timeout=START_TIMEOUT_S, trust_env=False).raise_for_status()
    finally:
        watchdog.cancel()
    return url


def stop(process: subprocess.Popen[str]) -> None:
    """End the service as a process manager would, and with force if it does not listen."""
    process.terminate()
    try:
        code = process.wait(timeout=STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise DemoError(f"the service did not stop within {STOP_TIMEOUT_S} s") from None
    if code != 0:
        raise DemoError(f"the service left with exit code {code}")


def save_report(client: httpx.Client, path: Path, request: dict[str, Any]) -> Path:
    """Submit a study and save its report page at `path`, which it returns."""
    name, body = path.stem, dict(request)
    if isinstance(body["model"], Path):
        body["model"] = {"config": json.loads(body["model"].read_text(encoding="utf-8")), "name": name}
    created = client.post("/v1/studies", json=body)
    if created.status_code != httpx.codes.CREATED:
        raise DemoError(f"POST /v1/studies for {name} answered {created.status_code}: {created.text[:500]}")
    study = created.json()
    chosen = study["plan"]["chosen"]
    print(
        f"POST /v1/studies {name}: {study['status']}, {chosen['schedule']} with W={chosen['width']}, "
        f"D={chosen['depth']}, B={chosen['micro_batch_size']}"
    )
    report = client.get(f"/v1/studies/{study['id']}/report").raise_for_status()
    path.write_text(report.text, encoding="utf-8")
    return path


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "demo-output"))
