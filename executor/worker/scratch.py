"""Where does a job leave its files? In a folder that names the worker, so that another can remove it."""

import os
import re
import shutil
import tempfile
from pathlib import Path

from executor.launchers.processes import read_status

_PREFIX = "chimera-job"
_NAME = re.compile(rf"{_PREFIX}-(\d+)-(\d+)-\w+")


def make_scratch() -> str:
    """A new folder for one job of this process."""
    status = read_status(os.getpid())
    began = status.began if status else 0
    return tempfile.mkdtemp(prefix=f"{_PREFIX}-{os.getpid()}-{began}-")


def sweep_scratch() -> int:
    """Remove the folders of workers that were killed; returns how many."""
    removed = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}-*"):
        named = _NAME.fullmatch(folder.name)
        if named is None:
            continue
        owner = read_status(int(named[1]))
        if owner is None or owner.began != int(named[2]):
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
    return removed
