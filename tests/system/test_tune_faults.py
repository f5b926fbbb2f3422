"""Does a `chimera tune` that is ended leave nothing behind, and lose nothing that it measured?"""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from profiles import library
from profiles.measurement import Measurements
from tests.cli.command import Shell, finish, start
from tests.executor.launchers.remains import Remains, watch_remains

pytestmark = pytest.mark.long


@pytest.fixture
def remains(monkeypatch: pytest.MonkeyPatch) -> Iterator[Remains]:
    """What is started from now on, and its files."""
    yield from watch_remains(monkeypatch)


def wait_for(process: subprocess.Popen[str], words: str) -> str:
    """What the process told on stderr, up to the line with these words."""
    assert process.stderr is not None
    seen = ""
    watchdog = threading.Timer(240, process.kill)
    watchdog.start()
    for line in process.stderr:
        seen += line
        if words in line:
            break
    watchdog.cancel()
    assert words in seen
    return seen


@pytest.mark.parametrize("ending", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_what_was_measured_is_kept_and_nothing_stays(
    capsys: pytest.CaptureFixture[str], remains: Remains, tmp_path: Path, ending: str
) -> None:
    """It is ended in its second trial: the first is in the document, and no process or file is left."""
    profile, cluster, kept = (tmp_path / name for name in ("profile.json", "cluster.json", "kept.json"))
    cluster.write_text(library.load_cluster("local-cpu").to_json(), encoding="utf-8")
    estimate = ("--on", "estimate", "--accelerator", "cpu", "-o", profile)
    assert Shell(capsys)("profile", "--model", "tiny-gpt", *map(str, estimate)).code == 0
    process = start(
        "tune", "--model", "tiny-gpt", "--cluster", str(cluster), "--profile", str(profile), "--devices", "2",
        "--mini-batch-size", "8", "--trials", "4", "-o", str(kept), cwd=tmp_path,
    )  # fmt: skip
    wait_for(process, "1/4 ")
    os.kill(process.pid, signal.Signals[ending])
    result = finish(process)
    remains.wait_for_end()

    assert remains.processes() == {}
    assert len(Measurements.from_json(kept.read_bytes(), name="kept").measurements) == 1
    if ending == "SIGINT":
        assert result.code == 130
        assert "Interrupted after 1 trials: they are in" in result.err
        assert remains.found() == []
