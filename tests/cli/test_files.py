"""Are files read within bounds, and written whole or not at all?"""

import os
from pathlib import Path

import pytest

from cli.errors import InputError
from cli.files import read_bounded, write_whole


def names(folder: Path) -> list[str]:
    """What lies in a folder, hidden files too."""
    return sorted(path.name for path in folder.iterdir())


def test_a_file_within_bounds_is_read(tmp_path: Path) -> None:
    """The bound itself is allowed."""
    (tmp_path / "a").write_bytes(b"12345")
    assert read_bounded(tmp_path / "a", most=5) == b"12345"


def test_a_large_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """A sparse file of 1 TB costs nothing."""
    with (tmp_path / "a").open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(InputError, match="1,000,000,000,000 bytes; at most 100"):
        read_bounded(tmp_path / "a", most=100)


def test_an_endless_device_is_refused() -> None:
    """What has no size is read up to the bound."""
    with pytest.raises(InputError, match="more than 100 bytes"):
        read_bounded(Path("/dev/zero"), most=100)


@pytest.mark.parametrize("name", ["missing", ".", "file/inside"])
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    """The message has the path and the system's reason."""
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot read"):
        read_bounded(tmp_path / name, most=100)


def test_writing_replaces_a_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    """The old text is there until the new text is."""
    path = tmp_path / "report.html"
    write_whole(path, "old")
    write_whole(path, "new")
    assert path.read_text() == "new"
    assert names(tmp_path) == ["report.html"]


def test_a_new_file_has_the_permissions_of_the_user(tmp_path: Path) -> None:
    """It is not as private as the temporary file that it was."""
    write_whole(tmp_path / "a", "text")
    (tmp_path / "b").write_text("text")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


@pytest.mark.parametrize("name", ["missing/report.html", "file/report.html", "folder"])
def test_what_cannot_be_written_leaves_nothing(tmp_path: Path, name: str) -> None:
    """No folder, a file for a folder, a folder for a file."""
    (tmp_path / "file").write_text("kept")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="nothing was written"):
        write_whole(tmp_path / name, "text")
    assert names(tmp_path) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "kept"


def test_a_device_or_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    """`--report /dev/stdout` must not put a file where the device was."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/null")):
        with pytest.raises(InputError, match="it is not a file; nothing was written"):
            write_whole(path, "text")
    assert pipe.is_fifo()


def test_a_link_keeps_pointing_to_the_file_that_is_written(tmp_path: Path) -> None:
    """The link's target gets the text."""
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_a_full_disk_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the text does not reach the disk, the old one stays and the temporary file goes."""
    path = tmp_path / "report.html"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device; nothing was written"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["report.html"]
