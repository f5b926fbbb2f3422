"""Does the board hand on what is written, and are boards removed that nobody uses any more?"""

import os
from pathlib import Path

from executor.launchers.on_slurm.board import Board


def prepared(folder: Path) -> Board:
    """A board for two ranks."""
    folder.mkdir()
    board = Board(folder)
    board.prepare("{}", 2)
    return board


def test_a_reader_that_meets_half_a_document_keeps_what_it_knew(tmp_path: Path) -> None:
    """A network file system may show one."""
    board = prepared(tmp_path / "run-a")
    board.say(1, {"count": 1, "result": "not here"})
    assert (board.hear(0), board.hear(1)) == ({}, {"count": 1})
    (board.folder / "said-1.json").write_text('{"count": 2, "se', encoding="utf-8")
    board.answer(1, "[]")
    assert board.hear(1) == {"count": 1, "result": "[]"}


def test_boards_of_keepers_that_were_killed_are_removed(tmp_path: Path) -> None:
    """Those without a beat for a while, by the clock of the disk; nothing else."""
    dead, alive = (prepared(tmp_path / name) for name in ("run-dead", "run-alive"))
    other = tmp_path / "run-of-somebody"
    other.mkdir()
    pulse = dead.folder / "pulse.json"
    os.utime(pulse, (0, pulse.stat().st_mtime - 1000))
    prepared(tmp_path / "run-new").sweep_others(900)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run-alive", "run-new", "run-of-somebody"]
    assert (dead.pulse(), alive.pulse()) == (-1, 0)
