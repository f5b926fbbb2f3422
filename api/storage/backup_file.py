"""What does a backup look like? Lines of JSON in gzip, of which the last tells that they are all there.

The first line is the header, the last one counts the rows of each table and has the SHA-256 of all lines
above. Between them stands for each table a line with its name and columns, then a line for each row.
"""

import gzip
import hashlib
import json
import os
import secrets
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from api.errors import BackupError, ServiceError

FORMAT = "chimera-tuner backup"
VERSION = 1
_LONGEST_LINE = 512_000_000

Row = list[Any]


@dataclass(frozen=True)
class Header:
    """Where the rows come from."""

    revision: str
    """Of the schema."""
    release: str
    database: str
    """sqlite or postgresql; either can be restored into either."""
    made_at: str
    format: str = FORMAT
    version: int = VERSION


@dataclass(frozen=True)
class TableStart:
    """The rows that follow are of this table."""

    name: str
    columns: tuple[str, ...]


@dataclass
class BackupWriter:
    """Writes lines, and the last one when all are written."""

    file: BinaryIO
    rows: dict[str, int] = field(default_factory=dict)
    _table: str = ""
    _digest: Any = field(default_factory=hashlib.sha256)

    def begin_table(self, name: str, columns: list[str]) -> None:
        """Rows of this table follow."""
        self._table, self.rows[name] = name, 0
        self.line({"table": name, "columns": columns})

    def row(self, values: Row) -> None:
        """One row."""
        self.rows[self._table] += 1
        self.line(values)

    def end(self) -> None:
        """Say that this was all."""
        self.line({"rows": self.rows, "sha256": self._digest.hexdigest()})

    def line(self, value: Any) -> None:
        """One line."""
        text = json.dumps(value, separators=(",", ":")).encode() + b"\n"
        self._digest.update(text)
        self.file.write(text)


@contextmanager
def writing(path: Path, header: Header, *, force: bool) -> Iterator[BackupWriter]:
    """Write a backup at `path` (mode 0600), whole or not at all: it gets its name when it is on the disk.

    Raises BackupError where there is something already, unless `force`, and OSError for a full disk.
    """
    check_place(path, force=force)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as raw:
            with gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw) as file:
                writer = BackupWriter(file)  # type: ignore[arg-type]
                writer.line(asdict(header))
                yield writer
                writer.end()
            raw.flush()
            os.fsync(raw.fileno())
        if force:
            temporary.replace(path)
        else:
            os.link(temporary, path)
    except FileExistsError:
        raise _taken(path) from None
    except OSError as error:
        kind = BackupError if isinstance(error, PermissionError) else ServiceError
        raise kind(f"cannot write {path}: {error.strerror or error}; nothing was changed") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def check_place(path: Path, *, force: bool) -> None:
    """Raise BackupError where no backup could be written."""
    if not path.parent.is_dir():
        raise BackupError(f"the folder {path.parent} is not there: make it")
    if path.exists() and not path.is_file():
        raise BackupError(f"{path} is no file: name one")
    if path.exists() and not force:
        raise _taken(path)


def _taken(path: Path) -> BackupError:
    return BackupError(f"{path} is there already: name another file, or write over it with --force")


def read_backup(path: Path) -> Iterator[Header | TableStart | Row]:
    """The header, then each table and its rows. Raises BackupError where something is missing or changed."""
    digest, rows, columns, ended = hashlib.sha256(), dict[str, int](), 0, False
    table = ""
    for number, line in enumerate(_lines(path)):
        value = _parse(path, line)
        if number == 0:
            yield _header(path, value)
        elif ended:
            raise _damaged(path, "something follows its end")
        elif isinstance(value, list) and table and len(value) == columns:
            rows[table] += 1
            yield value
        elif isinstance(value, dict) and {"table", "columns"} == set(value) and value["table"] not in rows:
            start = TableStart(str(value["table"]), tuple(value["columns"]))
            table, columns, rows[start.name] = start.name, len(start.columns), 0
            yield start
        elif isinstance(value, dict) and value == {"rows": rows, "sha256": digest.hexdigest()}:
            ended = True
        else:
            raise _damaged(path, f"line {number + 1:,} is not what it was")
        digest.update(line)
    if not ended:
        raise _damaged(path, "its end is missing")


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path, "rb") as file:
            while line := file.readline(_LONGEST_LINE):
                yield line
    except EOFError:
        raise _damaged(path, "its end is missing") from None
    except zlib.error as error:
        raise _damaged(path, str(error)) from None
    except gzip.BadGzipFile:
        raise _foreign(path) from None
    except OSError as error:
        raise BackupError(f"cannot read {path}: {error.strerror or error}") from None


def _parse(path: Path, line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise _damaged(path, "it holds something else than JSON") from None


def _header(path: Path, value: Any) -> Header:
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise _foreign(path)
    if value.get("version") != VERSION:
        raise BackupError(
            f"{path} is of version {value.get('version')} of backups and this release reads {VERSION}: "
            "restore it with the release that made it or a later one"
        )
    try:
        return Header(**value)
    except TypeError:
        raise _damaged(path, "its first line is not what it was") from None


def _foreign(path: Path) -> BackupError:
    return BackupError(
        f"{path} is no backup that `chimera database backup` wrote, or its beginning is damaged"
    )


def _damaged(path: Path, what: str) -> BackupError:
    return BackupError(f"the backup {path} is damaged, {what}: take another copy of it")
