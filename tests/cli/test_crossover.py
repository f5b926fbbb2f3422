"""Does `chimera crossover` say what sharing gives, and refuse what it cannot read?"""

import json
from pathlib import Path

import pytest

from tests.cli.command import BERT, Shell


def test_emulated_jobs_gain_by_what_they_would_wait(chimera: Shell) -> None:
    """Two equal jobs with a sixth exposed run 1.2 times as fast; unequal ones may be named too."""
    told = chimera("crossover", "--emulate", "jobs=2,phi=1/6", "--json")
    assert told.code == 0, told.err
    assert json.loads(told.out)["predicted_speedup"] == pytest.approx(1.2)
    text = chimera("crossover", "--emulate", "phi=1/3", "--emulate", "phi=0.5,compute_s=0.2")
    assert text.code == 0, text.err
    assert "1.375 times as fast" in text.out


def test_plans_share_and_what_does_not_fit_is_a_negative_answer(chimera: Shell, tmp_path: Path) -> None:
    """A plan as `chimera plan --json` prints it, twice."""
    path = tmp_path / "plan.json"
    path.write_text(chimera("plan", *BERT, "--schedules", "chimera", "--json").out)
    told = chimera("crossover", path, path, "--json")
    assert told.code == 1, told.err
    found = json.loads(told.out)
    assert not found["memory"]["fits"]
    assert found["predicted_speedup"] > 1


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ((), "give plans"),
        (("--emulate", "jobs=2,phi=1"), "below 1"),
        (("--emulate", "jobs=1.5"), "whole number"),
        (("--emulate", "jobs=2,phi=1/0"), "not a number"),
        (("--emulate", "jobs=2,jobs=2"), "once"),
        (("--emulate", "compute_s=nan,jobs=2"), "not a number"),
        (("/nowhere.json",), "cannot read"),
    ],
)
def test_bad_input_is_refused(chimera: Shell, arguments: tuple[str, ...], wanted: str) -> None:
    """Exit code 2 and a sentence."""
    result = chimera("crossover", *arguments)
    assert (result.code, result.out) == (2, "")
    assert wanted in result.err


@pytest.mark.long
def test_jobs_are_run_alone_and_in_turns(chimera: Shell) -> None:
    """--run adds what was measured beside what is predicted."""
    ran = chimera("crossover", "--emulate", "jobs=2,phi=1/3", "--run", "--iterations", "6", "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert found["predicted_speedup"] == pytest.approx(1.5)
    assert found["measured_period_s"] > 0
    assert found["measured_speedup"] > 0
