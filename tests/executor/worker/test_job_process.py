"""Is a job done in its own process, and ended with all that it started?"""

import os
import signal
from typing import Any

import pytest

from executor.launchers.processes import descendants
from executor.worker.job_process import Ending, Stop, do_job
from tests.executor.launchers.remains import Remains
from tests.executor.worker.factories import EMULATED, TINY, here, job_of
from tuner.assignments import ProfileLinksResult, ProfileModelResult, TrialResult, read_result
from tuner.messages import Cancelled, Done, Failed, JobKind

pytestmark = pytest.mark.slow

UNKNOWN_SCHEDULE = EMULATED | {"configuration": EMULATED["configuration"] | {"schedule": "fifo"}}
LONG = EMULATED | {"emulate": {"forward_s": 0.5, "backward_s": 1.0}, "iterations": 100}


def do(kind: JobKind, payload: dict[str, Any], **surroundings: Any) -> tuple[Ending, list[dict[str, Any]]]:
    """Do a job that nobody stops; its ending and what it told meanwhile."""
    told: list[dict[str, Any]] = []
    ending = do_job(job_of(kind, payload), here(**surroundings), watch=lambda: None, tell=told.append)
    return ending, told


def stopped(stop: Stop, payload: dict[str, Any] = LONG) -> Ending:
    """Do a trial that is stopped once its ranks run."""
    told: list[dict[str, Any]] = []

    def watch() -> Stop | None:
        return stop if told and len(descendants(os.getpid())) > 5 else None

    return do_job(job_of(JobKind.TRIAL, payload), here(), watch=watch, tell=told.append)


def test_a_config_that_nobody_has_seen_is_profiled(remains: Remains) -> None:
    """A profile of every size, in the precision asked for, by two processes at once; progress was told."""
    asked = {"model": TINY, "sequence_length": 16, "precision": "float32", "micro_batch_sizes": [2, 1, 2]}
    ending, told = do(JobKind.PROFILE_MODEL, asked | {"processes": 2})
    assert isinstance(ending.outcome, Done), ending
    result = read_result(JobKind.PROFILE_MODEL, ending.outcome.result)
    assert isinstance(result, ProfileModelResult)
    assert result.profile.timings.accelerator == "cpu"
    assert result.profile.timings.precision == "float32"
    assert {point.micro_batch_size for point in result.profile.timings.types[0].points} == {1, 2}
    assert "taken by 2 processes at the same time" in result.profile.timings.notes[0]
    assert told[-1] == {"doing": "done", "done": told[-1]["of"], "of": told[-1]["of"]}
    assert remains.found() == []


def test_a_trial_gives_times_memory_and_a_trace(remains: Remains) -> None:
    """Emulated, so that the least it can take is known: chimera of D = 2 and N = 4 runs 4 · 6 ms."""
    ending, told = do(JobKind.TRIAL, EMULATED)
    assert isinstance(ending.outcome, Done), ending
    result = read_result(JobKind.TRIAL, ending.outcome.result)
    assert isinstance(result, TrialResult)
    assert result.status == "ok"
    assert result.measured_iteration_s
    assert result.measured_iteration_s.median > 4 * 0.006
    assert len(result.peak_memory_bytes) == 2
    assert result.elapsed_s
    assert "trace.json" in [attachment.name for attachment in ending.attachments]
    assert "2 processes" in told[0]["doing"]
    assert remains.found() == []


def test_links_are_measured_between_processes(remains: Remains) -> None:
    """One link inside the node, with its points: sizes far enough apart for a slope on a busy machine."""
    asked = {"devices": 2, "message_bytes": [4096, 1048576, 16777216]}
    ending, _ = do(JobKind.PROFILE_LINKS, asked, budget_s=0.1)
    assert isinstance(ending.outcome, Done), ending
    result = read_result(JobKind.PROFILE_LINKS, ending.outcome.result)
    assert isinstance(result, ProfileLinksResult)
    assert [link.scope for link in result.links] == ["node"]
    assert [size for size, _ in result.links[0].points] == [4096, 1048576, 16777216]
    assert remains.found() == []


@pytest.mark.parametrize(
    ("kind", "payload", "told"),
    [
        (JobKind.TRIAL, UNKNOWN_SCHEDULE, "fifo"),
        (JobKind.TRIAL, EMULATED | {"rank_order": "data_major"}, "rank_order"),
        (JobKind.TRIAL, EMULATED | {"unheard_of": 1}, "unheard_of"),
        (JobKind.TRIAL, EMULATED | {"accelerator": "h100-80gb"}, "h100-80gb"),
        (JobKind.PROFILE_MODEL, {"model": "tiny-gtp"}, "tiny-gpt"),
        (JobKind.PROFILE_LINKS, {"devices": 2, "message_bytes": [4096]}, "size"),
    ],
)  # fmt: skip
def test_what_can_never_work_is_not_tried_again(kind: JobKind, payload: dict[str, Any], told: str) -> None:
    """It fails at once, in the words of what refused it."""
    ending, _ = do(kind, payload)
    assert isinstance(ending.outcome, Failed), ending
    assert told in ending.outcome.message
    assert not ending.outcome.retry


@pytest.mark.parametrize(("stop", "outcome"), [(Stop.CANCELLED, Cancelled), (Stop.LOST, type(None))])
def test_a_job_that_is_stopped_leaves_nothing(remains: Remains, stop: Stop, outcome: type[object]) -> None:
    """Its ranks are gone and their files as well."""
    assert isinstance(stopped(stop).outcome, outcome)
    assert remains.found() == []


def test_a_job_that_takes_too_long_is_ended(remains: Remains) -> None:
    """And not tried again, for it would take as long."""
    ending, _ = do(JobKind.TRIAL, LONG, limit_s=1.0)
    assert isinstance(ending.outcome, Failed), ending
    assert "not done within 1 s" in ending.outcome.message
    assert not ending.outcome.retry
    assert remains.found() == []


def test_a_job_whose_process_is_killed_may_be_tried_again(remains: Remains) -> None:
    """As the kernel does where memory ends; what is known of it is the evidence."""

    def tell(_: dict[str, Any]) -> None:
        child = next(
            pid for pid, command in remains.processes().items() if "executor.worker.child" in command
        )
        os.kill(child, signal.SIGKILL)

    ending = do_job(job_of(JobKind.TRIAL, LONG), here(), watch=lambda: None, tell=tell)
    assert isinstance(ending.outcome, Failed), ending
    assert "SIGKILL" in ending.outcome.message
    assert ending.outcome.retry
    assert ending.outcome.evidence["signal"] == "SIGKILL"
    assert remains.found() == []
