"""Does `chimera run` run what was asked, tell what came of it, and refuse the rest before it starts?"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cli.run import exit_code_of, read_emulation
from executor.launchers.outcome import Failure, Outcome, Status
from executor.trials.prepared_trial import prepare
from executor.trials.trial import RankResult, Trial
from executor.trials.trial_request import read_trial
from tests.cli.command import Shell

EMULATE = ("--emulate", "forward_s=0.004,backward_s=0.008")
PROGRAM = ("--schedule", "dapple", "--depth", "2", "--micro-batches", "3")


def test_an_emulated_run_is_told_beside_its_prediction(chimera: Shell, tmp_path: Path) -> None:
    """(N + D − 1)(F + B) = 48 ms is what sleeping takes at least; both timelines are written."""
    trace = tmp_path / "trace.json"
    result = chimera("run", *PROGRAM, *EMULATE, "--iterations", "3", "--json", "--trace", trace)
    assert result.code == 0, result.err
    told = json.loads(result.out)
    assert told["status"] == "ok"
    assert told["predicted_iteration_s"] == told["ideal_iteration_s"] == pytest.approx(0.048)
    assert told["measured_iteration_s"].keys() == {"median", "p10", "p90"}
    assert told["measured_iteration_s"]["p10"] >= 0.048
    assert len(told["iterations_s"]) == 3
    assert len(told["peak_memory_bytes"]) == 2
    assert told["check"] is None
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    named = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert named == {f"rank {rank} {word}" for rank in (0, 1) for word in ("measured", "predicted")}


def test_people_get_sentences(chimera: Shell) -> None:
    """How it ended, what it took, and what to do next."""
    result = chimera("run", *PROGRAM, *EMULATE, "--iterations", "1", "--warm-up", "0")
    assert result.code == 0, result.err
    assert "dapple W=1 data-parallel x D=2 pipeline" in result.out
    assert "predicted" in result.out
    assert result.out.splitlines()[-1].startswith("Next:")


def test_a_run_that_takes_too_long_cannot_be_answered(chimera: Shell) -> None:
    """Exit code 3, with the rank that was there."""
    emulate = ("--emulate", "forward_s=30,backward_s=60", "--timeout", "6", "--json")
    result = chimera("run", *PROGRAM, *emulate)
    told = json.loads(result.out)
    assert (result.code, told["status"], told["measured_iteration_s"]) == (3, "timed_out", None)
    assert re.search(r"6(\.\d)? s", told["failure"]["message"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--schedule", "chimera", "--depth", "3", "--micro-batches", "4", *EMULATE), "even depth"),
        ((*PROGRAM, *EMULATE, "--width", "99"), "198 processes; 64 is the most"),
        (PROGRAM, "either a model or what to emulate"),
        ((*PROGRAM, *EMULATE, "--check"), "an emulated run has none"),
        ((*PROGRAM, "--model", "tiny-gpt", "--stage-layers", "3,5"), "2 stages and 8 layers; 2 stages"),
        ((*PROGRAM, "--emulate", "forward_s=1"), "backward_s"),
        ((*PROGRAM, "--emulate", "forward_s"), "write forward_s=0.02"),
        ((*PROGRAM, "--emulate", "forward_s=1,forward_s=2"), "each name once"),
        ((*PROGRAM, "--emulate", "forward_s=fast"), "'fast' is not a number"),
        ((*PROGRAM, "--emulate", "forward_s=nan,backward_s=1"), "forward_s"),
        ((*PROGRAM, *EMULATE, "--partition", "a"), "--partition is for --launcher slurm, and this is local"),
        ((*PROGRAM, *EMULATE, "--queue-timeout", "9"), "for --launcher slurm or ray, and this is local"),
        ((*PROGRAM, *EMULATE, "--launcher", "ray", "--slurm-option", "a=b"), "--slurm-option is for"),
        ((*PROGRAM, *EMULATE, "--launcher", "slurm", "--slurm-option", "qos"), "write NAME=VALUE"),
        ((*PROGRAM, *EMULATE, "--launcher", "slurm", "--nodes", "0"), "0 is not in the range"),
    ],
)
def test_what_cannot_run_is_refused(chimera: Shell, words: tuple[str, ...], said: str) -> None:
    """Exit code 2 before anything is launched."""
    result = chimera("run", *words)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert "Running" not in result.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "gpt2-small"), "is of tiny-gpt with 4 blocks, and gpt2-small has 12"),
        (("--model", "tiny-gpt", "--sequence-length", "32"), "64 tokens in a sample, and tiny-gpt has 32"),
        (("--model", "tiny-gpt", "--precision", "bfloat16"), "taken in float32, and the run is in bfloat16"),
    ],
)
def test_a_profile_of_something_else_is_refused(
    chimera: Shell, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    """Before anything is launched, with what differs."""
    taken = tmp_path / "profile.json"
    made = ("profile", "--model", "tiny-gpt", "--on", "estimate", "--accelerator", "cpu", "-o", taken)
    assert chimera(*made).code == 0
    result = chimera("run", *PROGRAM, *words, "--profile", taken)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert "Running" not in result.err


def test_emulated_costs_are_numbers_by_name() -> None:
    """Bytes are whole."""
    assert read_emulation("forward_s=1e-3, message_bytes=64") == {"forward_s": 0.001, "message_bytes": 64}
    assert read_emulation(None) is None


def trial(status: Status, failure: Failure | None = None, **check: Any) -> Trial:
    """A trial that ended so."""
    request = read_trial(
        {
            "schedule": "dapple",
            "depth": 1,
            "micro_batches": 1,
            "emulate": {"forward_s": 1.0, "backward_s": 1.0},
        }
    )
    memory = {"peak_bytes": 1, "baseline_bytes": 0, "reserved_bytes": 1}
    ranks = (RankResult([0.0], [1.0], [], memory, check),) if check else ()
    outcome = Outcome(status, 1.0, failure=failure)
    return Trial(prepare(request), outcome, None, None, ranks, (1.0,) * len(ranks), (True,) * len(ranks))


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        (trial(Status.OK), 0),
        (trial(Status.OK, passed=True), 0),
        (trial(Status.OK, passed=False), 1),
        (trial(Status.OUT_OF_MEMORY, Failure("", 0)), 1),
        (trial(Status.FAILED, Failure("", 0, exception="ValueError")), 1),
        (trial(Status.FAILED, Failure("", 0, signal="SIGKILL", lost=True)), 3),
        (trial(Status.FAILED, Failure("", None, lost=True)), 3),
        (trial(Status.TIMED_OUT, Failure("", 0)), 3),
    ],
)
def test_the_exit_code_says_whether_there_is_an_answer(ended: Trial, code: int) -> None:
    """Memory that does not suffice is an answer, a lost worker is none."""
    assert exit_code_of(ended) == code


@pytest.mark.slow
def test_a_real_model_is_compared_with_one_process(chimera: Shell) -> None:
    """In float64 both replicas learn what it learns; the memory of code is not taken for the model's."""
    program = ("--schedule", "chimera", "--depth", "2", "--micro-batches", "2", "--iterations", "1")
    result = chimera("run", "--model", "tiny-gpt", *program, "--check", "--precision", "float64", "--json")
    assert result.code == 0, result.err
    told = json.loads(result.out)
    assert told["status"] == "ok"
    assert told["check"]["passed"] is True
    assert len(told["memory"]) == 2
    assert 0 < max(told["peak_memory_bytes"]) < 100_000_000
