"""Does `make demo`'s script do the main job and leave nothing running, even when a step fails?"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.slow


def run_demo(script: Path, output: Path) -> subprocess.CompletedProcess[str]:
    """The demonstration as a process of its own."""
    return subprocess.run(
        [sys.executable, "-P", script, output], capture_output=True, text=True, check=False, timeout=240
    )


def test_the_demo_plans_serves_and_saves_three_reports(tmp_path: Path) -> None:
    """Three plans for people, three studies over REST, three pages, and the service is gone."""
    output = tmp_path / "reports"
    result = run_demo(ROOT / "examples" / "demo.py", output)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("\nRun ") == 3
    assert result.stdout.count("POST /v1/studies ") == 3
    pages = sorted(output.iterdir())
    assert [page.name for page in pages] == ["bert-48.html", "gpt2-64.html", "llama-3-8b.html"]
    for page in pages:
        assert str(page) in result.stdout
        assert page.read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html>")
    check_stopped(result.stdout)


def test_a_failing_step_stops_the_service_and_is_told(tmp_path: Path) -> None:
    """The example's file is broken after the plans: exit code 1, and nobody listens any more."""
    examples = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", examples)
    script = examples / "demo.py"
    text = script.read_text(encoding="utf-8")
    script.write_text(text.replace('"/v1/studies"', '"/v1/nowhere"'), encoding="utf-8")
    result = run_demo(script, tmp_path / "reports")
    assert result.returncode == 1
    assert "The demo failed: POST /v1/studies for bert-48 answered 404" in result.stderr
    assert "Traceback" not in result.stderr
    check_stopped(result.stdout)


def check_stopped(shown: str) -> None:
    """The port that was listened on is free again."""
    found = re.search(r"Listening on http://127\.0\.0\.1:(\d+)", shown)
    assert found
    with pytest.raises(ConnectionRefusedError):
        os.close(_connect(int(found[1])))


def _connect(port: int) -> int:
    import socket

    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        return connection.detach()
