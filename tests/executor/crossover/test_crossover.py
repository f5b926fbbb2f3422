"""Do jobs that share ranks compute one at a time, learn what they learn alone, and outlive each other?"""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from executor.crossover.crossover import CrossoverRun, run_crossover
from executor.crossover.overlap import find_overlaps
from executor.errors import ConfigurationError
from executor.launchers.outcome import Status
from executor.launchers.processes import descendants
from executor.trials.trial_request import TrialRequest, read_trial

COMPUTE_S = 0.06


def emulated(*, share: float = 0.0, compute_s: float = COMPUTE_S, **asked: Any) -> TrialRequest:
    """Two replicas that compute so long and have such a share of an iteration exposed."""
    sleeps = {"forward_s": compute_s / 3, "backward_s": 2 * compute_s / 3}
    sleeps["all_reduce_s"] = compute_s * share / (1 - share)
    request = {
        "schedule": "dapple", "width": 2, "depth": 1, "micro_batches": 1, "iterations": 6, "warm_up": 1,
        "timeout_s": 120.0, "emulate": sleeps,
    }  # fmt: skip
    return read_trial(request | asked)


def trained(**asked: Any) -> TrialRequest:
    """A tiny model in a bidirectional pipeline of two."""
    request = {
        "schedule": "chimera", "depth": 2, "micro_batches": 2, "model": "tiny-gpt", "iterations": 4,
        "warm_up": 1, "timeout_s": 120.0,
    }  # fmt: skip
    return read_trial(request | asked)


def speed_up(run: CrossoverRun) -> float:
    """What was measured."""
    assert run.statuses == (Status.OK,) * len(run.trials)
    assert run.measured_speedup is not None
    return run.measured_speedup


def test_jobs_in_turns_compute_one_at_a_time() -> None:
    """On every rank of two pipelines of two, as their traces show; a job overlaps itself, as a control."""
    request = emulated(schedule="chimera", width=1, depth=2, micro_batches=2, share=0.2, iterations=4)
    run = run_crossover([request, request], solo_s=[0.2, 0.2])
    assert speed_up(run) > 0
    assert run.same_weights is None
    assert run.overlaps == ()
    assert {each.rank for each in find_overlaps([run.trials[0]] * 2)} == {0, 1}


@pytest.mark.long
def test_jobs_that_train_learn_what_they_learn_alone() -> None:
    """To the bit, with different schedules and optimizers, divided or not, in pipelines of two."""
    sharded = trained(optimizer_sharding="replicas")
    run = run_crossover([sharded, trained(schedule="dapple", optimizer="sgd", seed=3)])
    assert speed_up(run) > 0
    assert run.same_weights is True
    assert run.trials[0].ranks[0].weights_digest != run.trials[1].ranks[0].weights_digest
    assert run.overlaps == ()


def test_a_job_whose_rank_is_killed_leaves_the_other_running() -> None:
    """It fails by its own cause, while the other ends well; both are pipelines of two."""
    request = emulated(schedule="chimera", width=1, depth=2, micro_batches=2, iterations=15)
    killer = threading.Thread(target=kill_one_of, args=(4,))
    killer.start()
    run = run_crossover([request, request], alone=False)
    killer.join()
    assert sorted(run.statuses) == [Status.FAILED, Status.OK]
    failure = next(trial.outcome.failure for trial in run.trials if trial.outcome.failure)
    assert failure.signal == "SIGKILL"
    assert run.measured_speedup is None
    assert next(trial for trial in run.trials if trial.status == Status.OK).iteration_s


def kill_one_of(count: int) -> None:
    """SIGKILL to one process, once so many of those started here have the board of turns open."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        taking_turns = [pid for pid in descendants(os.getpid()) if has_board(pid)]
        if len(taking_turns) == count:
            os.kill(taking_turns[-1], signal.SIGKILL)
            return
        time.sleep(0.05)


def has_board(pid: int) -> bool:
    """Whether it takes turns."""
    try:
        return any("chimera-turns" in str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False


@pytest.mark.long
@pytest.mark.parametrize("share", [1 / 6, 1 / 3])
def test_two_equal_jobs_fill_what_each_would_wait(share: float) -> None:
    """Speed-up of at least 0.95 of min(1/(1 − φ), 2) on a quiet machine, and never two at once."""
    run = run_crossover([emulated(share=share)] * 2)
    measured = speed_up(run)
    assert run.overlaps == ()
    if not run.quiet:
        pytest.skip(f"the machine was not quiet: speed-up {measured:.3f}")
    assert measured >= 0.95 * min(1 / (1 - share), 2)


@pytest.mark.parametrize(
    ("requests", "words"),
    [
        (list, "no job to run"),
        (lambda: [emulated(), emulated(width=1)], r"these have \[2, 1\] ranks"),
        (lambda: [emulated(schedule="pipedream", width=1, depth=2)], "never waits for all"),
        (lambda: [emulated(iterations=3)], "at least 4"),
        (lambda: [trained(check=True)], "asks for a check"),
        (lambda: [emulated(launcher="ray")], "run on one machine"),
        (lambda: [emulated(width=33)] * 2, "66 processes"),
    ],
)
def test_jobs_that_cannot_take_turns_are_refused(
    requests: Callable[[], list[TrialRequest]], words: str
) -> None:
    """Before anything is launched, with the numbers."""
    with pytest.raises(ConfigurationError, match=words):
        run_crossover(requests())
