"""How does a training state come to disk whole or not at all, and back?

A file is written beside its place, forced to disk and renamed. It is read with `weights_only`: nothing in it
is run.
"""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from executor.errors import CheckpointError

FORMAT = "chimera-tuner checkpoint"
VERSION = 1


def save(path: Path, content: Mapping[str, Any]) -> None:
    """Write tensors, numbers, strings and containers of them; an older file stays until then."""
    path = Path(path)
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = Path(file.name)
            try:
                torch.save({"format": FORMAT, "version": VERSION, "content": dict(content)}, file)
                file.flush()
                os.fsync(file.fileno())
                temporary.replace(path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        _force_directory(path.parent)
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be written: {error}. Is there a folder, and room on the disk?"
        ) from None


def load(path: Path) -> dict[str, Any]:
    """What was saved, on the CPU; tensors are read when they are used."""
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint {path}: give the file that was saved")
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # noqa: BLE001 (torch raises in many ways on files that are not its own)
        reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
        raise CheckpointError(
            f"{path} ({path.stat().st_size} bytes) is damaged or no checkpoint: {reason}. Take an earlier one"
        ) from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise CheckpointError(f"{path} was not written by this program: give a file that it has saved")
    if found.get("version") != VERSION:
        raise CheckpointError(
            f"{path} has version {found.get('version')} of the format, this program reads {VERSION}: use the "
            "program that wrote it"
        )
    content: dict[str, Any] = found["content"]
    return content


def _force_directory(path: Path) -> None:
    """Make the renaming itself last."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
