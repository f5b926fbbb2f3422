"""Which repository, branch and revision is being checked, and by which job? As the CI system or git says."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_GIT_S = 20
_LONGEST = 200


def origin(project: str | None, folder: Path) -> dict[str, Any]:
    """What a check says of where it comes from; what is not known is left out.

    `project` is the manifest's; else the repository as GitHub or GitLab calls it, else its folder.
    """
    github, gitlab = os.environ.get("GITHUB_REPOSITORY"), os.environ.get("CI_PROJECT_PATH")
    found = {
        "project": project or github or gitlab or _folder(folder),
        "branch": _first("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME",
                         "CI_COMMIT_REF_NAME") or _git(folder, "symbolic-ref", "--quiet", "--short", "HEAD"),
        "revision": _first("GITHUB_SHA", "CI_COMMIT_SHA") or _git(folder, "rev-parse", "HEAD"),
        "url": _job(),
    }  # fmt: skip
    kept: dict[str, Any] = {name: value[:_LONGEST] for name, value in found.items() if value}
    return kept | {"checked_at": datetime.now(UTC).replace(microsecond=0)}


def _first(*names: str) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _job() -> str | None:
    server, run = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_RUN_ID")
    if server and run:
        url = f"{server}/{os.environ.get('GITHUB_REPOSITORY', '')}/actions/runs/{run}"
    else:
        url = os.environ.get("CI_JOB_URL", "")
    return url if url.startswith(("http://", "https://")) and len(url) <= _LONGEST else None


def _folder(folder: Path) -> str:
    top = _git(folder, "rev-parse", "--show-toplevel")
    return Path(top or folder).name or "models"


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says in one line; None without git, outside a repository, or before the first commit."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], env=outside_of_hooks(),
            capture_output=True, check=False, timeout=_GIT_S, encoding="utf-8", errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def outside_of_hooks() -> dict[str, str]:
    """The environment less what git tells its hooks, which holds in the folder of the hook alone."""
    told = {"GIT_INDEX_FILE", "GIT_PREFIX"}
    if "GIT_WORK_TREE" not in os.environ:
        told |= {"GIT_DIR", "GIT_COMMON_DIR"}
    return {name: value for name, value in os.environ.items() if name not in told}
