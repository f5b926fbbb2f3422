"""Are the files of killed workers removed, and nobody else's?"""

import os
import tempfile
from pathlib import Path

import pytest

from executor.worker.scratch import make_scratch, sweep_scratch


def test_only_folders_of_workers_that_are_gone_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of this process stays, also beside one of an earlier process that had its id."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = Path(make_scratch())
    (own / "file").touch()
    others = [tmp_path / "chimera-job-notes", tmp_path / "other"]
    gone = [tmp_path / f"chimera-job-{os.getpid()}-1-abc", tmp_path / "chimera-job-999999999-5-abc"]
    for folder in (*others, *gone):
        folder.mkdir()
    assert sweep_scratch() == 2
    assert sorted(tmp_path.iterdir()) == sorted([own, *others])
