"""Does Optuna read the journal of a study?"""

from pathlib import Path

import optuna
from optuna.storages.journal import JournalFileBackend

from tests.tuner.studies import grid, make_trial
from tuner.optuna_journal import journal
from tuner.optuna_study import NAME
from tuner.trials import TrialStatus

OPTIONS = grid()
ROWS = [make_trial(option, status=status) for option, status in zip(OPTIONS, TrialStatus, strict=False)]


def test_optuna_reads_every_row_back(tmp_path: Path) -> None:
    """From a file that its dashboard opens; the best is the fastest that ran."""
    path = tmp_path / "study.log"
    path.write_text(journal(ROWS, OPTIONS), encoding="utf-8")
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    study = optuna.load_study(study_name=NAME, storage=storage)

    assert sorted(trial.user_attrs["status"] for trial in study.trials) == sorted(TrialStatus)
    assert study.best_value == min(row.measured_s for row in ROWS if row.measured_s)


def test_the_same_rows_give_the_same_journal() -> None:
    """In whatever order they come."""
    assert journal(ROWS, OPTIONS) == journal(ROWS[::-1], OPTIONS)
