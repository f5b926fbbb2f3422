"""Can everybody use a page? The rules of axe-core, whose script comes from the npm registry."""

import base64
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

VERSION = "4.10.3"
_INTEGRITY = "Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/PbZhideTcEg=="
"""SHA-512 of the package, as the registry tells it."""
_PATIENCE_S = 60


@cache
def axe_script() -> str:
    """The script, kept beside the environment's packages; the test is skipped where it cannot be had."""
    folder = Path(sys.prefix) / "axe-core" / VERSION
    if not (folder / f"axe-core-{VERSION}.tgz").exists():
        _fetch(folder)
    package = folder / f"axe-core-{VERSION}.tgz"
    found = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
    assert found == _INTEGRITY, f"{package} is not what the registry had: delete it"
    with tarfile.open(package) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member
        return member.read().decode()


def _fetch(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm on this machine, which fetches axe-core")
    folder.mkdir(parents=True, exist_ok=True)
    command = [npm, "pack", f"axe-core@{VERSION}", "--pack-destination", str(folder), "--silent"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_PATIENCE_S)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        told = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        pytest.skip(f"axe-core cannot be fetched from the npm registry: {told[-1] if told else error}")


def faults(page: Page) -> list[str]:
    """What breaks a rule on the page as it is shown now: the rule, and the elements."""
    page.evaluate(axe_script())
    found: list[dict[str, Any]] = page.evaluate("axe.run().then((told) => told.violations)")
    return [
        f"{rule['id']}: {rule['help']}: " + json.dumps([node["html"][:200] for node in rule["nodes"][:4]])
        for rule in found
    ]
