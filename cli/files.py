"""How are the files of a command read and written? Bounded when read, whole or not at all when written."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.errors import InputError

if TYPE_CHECKING:
    from profiles.document import Document


def read_bounded(path: Path, *, most: int) -> bytes:
    """The bytes of a file or pipe; raises InputError if there are more than `most` or none can be read."""
    try:
        status = path.stat()
        if stat.S_ISREG(status.st_mode) and status.st_size > most:
            raise _too_large(path, f"{status.st_size:,} bytes", most)
        with path.open("rb") as file:
            raw = file.read(most + 1)
    except OSError as error:
        raise InputError(f"cannot read {_shown(path)}: {error.strerror or error}") from None
    if len(raw) > most:
        raise _too_large(path, f"more than {most:,} bytes", most)
    return raw


def write_whole(path: Path, text: str) -> None:
    """Write a file beside its place and move it there; raises InputError and leaves nothing half-written."""
    if path.exists() and not path.is_file():
        # Moving a file over /dev/null or a pipe would take its place.
        raise InputError(f"cannot write {_shown(path)}: it is not a file; nothing was written")
    path = path.resolve()
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    except OSError as error:
        raise _unwritable(path, error) from None
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Raise InputError now for a file that could not be written later, after long work."""
    folder = path.resolve().parent
    if path.exists() and not path.is_file():
        raise InputError(f"cannot write {_shown(path)}: it is not a file")
    if not folder.is_dir():
        raise InputError(f"cannot write {_shown(path)}: there is no folder {_shown(folder)}")
    if not os.access(folder, os.W_OK):
        raise InputError(f"cannot write {_shown(path)}: no permission to write into {_shown(folder)}")


def hand_out(
    document: Document, *, output: Path | None, as_json: bool, told: str, table: Callable[[], Iterable[str]]
) -> None:
    """A document to a file, as `told` says on stderr, and to stdout as JSON, or as a table without a file."""
    if output:
        write_whole(output, document.to_json() + "\n")
        click.echo(told, err=True)
    if as_json:
        click.echo(document.to_json())
    elif not output:
        click.echo("\n".join(table()))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _too_large(path: Path, size: str, most: int) -> InputError:
    return InputError(f"{_shown(path)} has {size}; at most {most:,} are read. Is this the right file?")


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(f"cannot write {_shown(path)}: {error.strerror or error}; nothing was written")


def _shown(path: Path) -> str:
    return repr(str(path)[:200])
