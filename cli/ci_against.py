"""What was a model before a change, on this same machine? The manifest of another revision, checked here."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cli.ci_origin import outside_of_hooks
from cli.errors import DONE, NOT_ANSWERED, InputError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.regressions.records import Baseline

_GIT_S = 300
_SHOWN = 500


def baseline_at(revision: str, manifest: Path) -> Baseline | None:
    """The baseline that the manifest of a revision of the repository gives now, on this machine.

    The files of the revision are unpacked into a folder of their own and checked by a process of its own;
    the repository is only read. None where the revision has no such manifest. Raises InputError where there
    is no such revision, UnavailableError where its models cannot be checked.
    """
    from cli.sources import read_document
    from tuner.regressions.records import Baseline

    manifest = manifest.resolve()
    if revision.startswith("-") or not revision.strip():
        raise InputError(f"--against {revision[:100]!r}: give a revision of git, such as origin/main")
    root = Path(os.fsdecode(_git(manifest.parent, "rev-parse", "--show-toplevel").rstrip(b"\n"))).resolve()
    commit = _commit(root, revision)
    with tempfile.TemporaryDirectory(prefix="chimera-ci-") as name:
        tree, kept = Path(name) / "tree", Path(name) / "baseline.json"
        _unpack(root, commit, tree)
        old = tree / manifest.relative_to(root)
        if not old.is_file():
            return None
        _check(old, tree, kept)
        return read_document(str(kept), Baseline)


def _commit(root: Path, revision: str) -> str:
    try:
        found = _git(root, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    except InputError as error:
        raise InputError(
            f"{error}. Where the checkout is shallow, as those of CI systems are, fetch {revision[:100]!r} "
            "first (actions/checkout: fetch-depth: 0; GitLab: GIT_DEPTH: 0)"
        ) from None
    return found.decode().strip()


def _unpack(root: Path, commit: str, tree: Path) -> None:
    """As it would be checked out: what attributes or a sparse checkout leave out of others is here, too."""
    index = {"GIT_INDEX_FILE": str(tree.parent / "index")}
    _git(root, "-c", "core.splitIndex=false", "read-tree", "--no-sparse-checkout", commit, environment=index)
    tree.mkdir()
    _git(root, "checkout-index", "--all", f"--prefix={tree}/", environment=index)


def _check(manifest: Path, tree: Path, kept: Path) -> None:
    """Write the baseline of an unpacked revision; models that cannot be measured are left out of it."""
    # Before what is installed, which may be the working tree of the same packages.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tree), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-P", "-c", _PROGRAM, str(manifest), "--accept", "--baseline", str(kept)],
        cwd=manifest.parent,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode not in {DONE, NOT_ANSWERED} or not kept.exists():
        told = done.stderr.decode("utf-8", "replace").strip()[-_SHOWN:]
        raise UnavailableError(f"the models before the change could not be checked: {told}")


_PROGRAM = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from cli.main import run
sys.exit(run(["ci", *sys.argv[1:]]))
"""
"""This same release of the command, whatever packages of the same names the revision has."""


def _git(folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> bytes:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            env={**outside_of_hooks(), **(environment or {})},
            capture_output=True,
            check=False,
            timeout=_GIT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"--against needs git, which does not answer: {error}") from None
    if done.returncode:
        told = done.stderr.decode("utf-8", "replace").strip()[:_SHOWN]
        raise InputError(f"--against: git says: {told}")
    return done.stdout
