"""Does the shared memory file tell what a rank wrote, to whoever opens it?"""

import os
import subprocess
import sys

from executor.launchers.progress import LONGEST_REPORT, ProgressArea, RankState
from tuner.schedules.program import Kind, Op


def test_a_rank_that_has_not_begun_is_absent() -> None:
    """With nothing noted."""
    area = ProgressArea.create(2)
    record = area.read(1)
    assert (record.state, record.pid, record.note, record.report) == (RankState.ABSENT, 0, None, None)
    area.close()


def test_what_a_rank_writes_is_read_and_does_not_touch_others() -> None:
    """Its operation, whether it waits, and what it does in words."""
    area = ProgressArea.create(3)
    rank, op = area.writer(1), Op(Kind.SYNC, 1, 2, 3, part=1, parts=4, group=-1)
    rank.begin()
    rank.doing("building the modèl")
    rank.note(7, op, waits=True)
    record = area.read(1)
    assert record.note is not None
    assert (record.note.index, Op._make(record.note.fields)) == (7, op)
    assert (record.state, record.pid, record.activity) == (
        RankState.RUNNING,
        os.getpid(),
        "building the modèl",
    )
    assert record.waiting
    assert record.active_ns >= record.note.at_ns > 0
    rank.go_on()
    assert not area.read(1).waiting
    assert {area.read(other).state for other in (0, 2)} == {RankState.ABSENT}
    area.close()


def test_the_first_report_stays_and_long_ones_are_cut() -> None:
    """What follows a failure is a consequence."""
    area = ProgressArea.create(1)
    rank = area.writer(0)
    rank.fail({"at_ns": 5, "message": "m" * (2 * LONGEST_REPORT)})
    rank.fail({"at_ns": 6, "message": "later"})
    record = area.read(0)
    assert record.state == RankState.FAILED
    assert record.report == {"at_ns": 5, "message": "m" * 2000}
    area.close()


def test_another_process_finds_the_area_by_its_path() -> None:
    """Without any file on a disk."""
    area = ProgressArea.create(2)
    code = "import sys; from executor.launchers import progress as p; p.ProgressArea.attach(sys.argv[1])"
    code += ".writer(1).end(9)"
    subprocess.run([sys.executable, "-P", "-c", code, area.path], check=True)
    assert area.read(1).wait_status == 9
    assert area.read(0).wait_status is None
    area.close()
