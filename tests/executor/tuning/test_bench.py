"""Is every way in which a trial can end a row of its study?"""

import pytest

from executor.launchers.outcome import Failure, Outcome, Status
from executor.trials.prepared_trial import prepare
from executor.trials.trial import RankResult, Trial
from executor.trials.trial_request import read_trial
from executor.trials.trial_result import result_of
from executor.tuning.bench import Bench, How
from profiles import library
from tests.tuner.factories import make_request
from tuner.configuration import Configuration
from tuner.inputs import gather
from tuner.trial_rows import row_of
from tuner.trials import TrialStatus

RAN = Configuration("dapple", width=1, depth=1, micro_batch_size=1, micro_batches=1)
ASKED = {
    "schedule": "dapple",
    "depth": 1,
    "micro_batches": 1,
    "emulate": {"forward_s": 1.0, "backward_s": 1.0},
}


def run(status: Status, *, quiet: bool = True, message: str = "") -> Trial:
    """A run that ended so, after 8 s; its two iterations took 2 and 3 s."""
    failure = Failure(message, 0) if message else None
    memory = {"peak_bytes": 300, "baseline_bytes": 200, "reserved_bytes": 300}
    ok = status is Status.OK
    ranks = (RankResult([0.0, 2.0], [2.0, 5.0], [], memory),) if ok else ()
    times = (2.0, 3.0) if ok else ()
    prepared, outcome = prepare(read_trial(ASKED)), Outcome(status, 8.0, failure=failure)
    return Trial(prepared, outcome, None, None, ranks, times, (True,) * len(times), quiet)


def test_a_run_gives_its_median_its_peak_and_what_it_cost() -> None:
    """Memory counts from nothing, as a plan counts it."""
    row = row_of(RAN.with_(width=2), 2.0, result_of(run(Status.OK)))

    assert (row.status, row.measured_s, row.peak_bytes) == (TrialStatus.OK, 2.5, 300)
    assert (row.device_seconds, row.message) == (16.0, None)
    assert row.spread_s > 0


@pytest.mark.parametrize(
    ("ended", "status", "message"),
    [
        (run(Status.OK, quiet=False), "noisy", None),
        (run(Status.OUT_OF_MEMORY, message="rank 0 has no more"), "out_of_memory", "rank 0 has no more"),
        (run(Status.FAILED, message="rank 0 raised"), "failed", "rank 0 raised"),
        (run(Status.TIMED_OUT, message="rank 0 waits"), "timed_out", "rank 0 waits"),
    ],
)
def test_what_does_not_end_well_is_a_row_with_its_reason(
    ended: Trial, status: str, message: str | None
) -> None:
    """Only a noisy one has a time."""
    row = row_of(RAN, 2.0, result_of(ended))

    assert (row.status, row.message) == (TrialStatus(status), message)
    assert (row.measured_s is not None) == (status == "noisy")


def test_what_cannot_be_launched_is_a_failed_row() -> None:
    """A configuration of another mini-batch is none of this request; nothing starts."""
    inputs = gather(make_request(cluster="local-cpu", devices=2), library)
    bench = Bench(inputs, "tiny-gpt", profile=None, how=How())

    attempt = bench.attempt(RAN, 2.0)
    assert (attempt.row.status, attempt.run) == (TrialStatus.FAILED, None)
    assert "no configuration of 4 blocks and a mini-batch of 64" in (attempt.row.message or "")
