"""Does what the documentation shows run?"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import CHIMERA

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> list[str]:
    """The blocks of a page in one language."""
    return [
        text for found, text in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")) if found == language
    ]


@pytest.mark.parametrize("page", ["python.md"])
def test_python_blocks_run_in_order(page: str) -> None:
    """One after the other in one program, from a checkout."""
    code = "\n".join(blocks(page, "python"))
    assert code
    subprocess.run(
        [sys.executable, "-c", code], cwd=DOCS.parent, check=True, stdout=subprocess.DEVNULL, timeout=300
    )


@pytest.mark.parametrize("page", ["exports.md", "ci.md"])
def test_shell_blocks_run(page: str, tmp_path: Path) -> None:
    """Each in one folder, and none fails."""
    chimera = tmp_path / "bin" / "chimera"
    chimera.parent.mkdir()
    chimera.write_text(f'#!/bin/sh\nexec {" ".join(CHIMERA)} "$@"\n')
    chimera.chmod(0o755)
    environment = os.environ | {"PATH": f"{chimera.parent}:{os.environ['PATH']}"}
    script = "set -e\n" + "".join(blocks(page, "sh"))
    assert script.count("chimera") > 1
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
