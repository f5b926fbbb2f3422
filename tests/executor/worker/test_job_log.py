"""Is the log of a job kept, and kept small?"""

import os

from executor.worker.job_log import KEPT_BYTES, JobLog


def test_the_end_of_a_long_log_is_kept() -> None:
    """However much a job prints, the worker keeps its last million bytes."""
    log = JobLog()
    for number in range(KEPT_BYTES // 10_000 + 20):
        os.write(log.writing, f"{number:09}\n".encode() * 1_000)
        log.read()
    os.write(log.writing, b"the end\xff")
    log.began()
    log.close()
    assert len(log.text()) == KEPT_BYTES
    assert log.text().endswith("the end�")
