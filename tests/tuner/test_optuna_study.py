"""Is the study that Optuna sees the one that our rows tell?"""

from pathlib import Path

import optuna

from tests.tuner.studies import grid, make_trial
from tuner.optuna_study import NAME, Space, draw, make_study
from tuner.trials import TrialStatus

OPTIONS = grid()
SPACE = Space([option.configuration for option in OPTIONS])
ROWS = [make_trial(option, status=status) for option, status in zip(OPTIONS, TrialStatus, strict=False)]


def test_every_row_is_a_trial_of_optuna() -> None:
    """What is queued or runs is running, what failed has failed, out of memory violates its constraint."""
    by_status = {trial.user_attrs["status"]: trial for trial in make_study(ROWS, SPACE, seed=0).trials}

    states = {status: trial.state.name for status, trial in by_status.items()}
    assert states == {
        "queued": "RUNNING",
        "running": "RUNNING",
        "ok": "COMPLETE",
        "noisy": "COMPLETE",
        "out_of_memory": "COMPLETE",
        "failed": "FAIL",
        "timed_out": "FAIL",
    }
    assert by_status["out_of_memory"].constraints["memory"] > 0
    assert by_status["ok"].constraints["memory"] <= 0


def test_the_fastest_that_fits_is_optunas_best() -> None:
    """A configuration that ran out of memory is not, however fast it was predicted."""
    rows = [make_trial(OPTIONS[0], factor=9.0), make_trial(OPTIONS[1], status="out_of_memory")]

    assert make_study(rows, SPACE, seed=0).best_trial.user_attrs["status"] == "ok"


def test_the_same_seed_draws_the_same_points_of_the_space() -> None:
    """Two studies of the same rows in another order draw the same."""
    rows = [make_trial(option) for option in OPTIONS[:20]]
    first, second = (draw(make_study(order, SPACE, seed=7), SPACE, 4) for order in (rows, rows[::-1]))

    assert first == second
    for point in first:
        nearest = SPACE.distances(point, [option.configuration for option in OPTIONS]).min()
        assert nearest <= 2


def test_a_configuration_is_nearest_to_its_own_point() -> None:
    """Its distance is 0, and that of every other is more."""
    configurations = [option.configuration for option in OPTIONS]
    for place, configuration in enumerate(configurations):
        distances = SPACE.distances(SPACE.point(configuration), configurations)
        assert (distances == 0).nonzero()[0].tolist() == [place]


def test_a_study_is_kept_where_the_dashboard_reads_it(tmp_path: Path) -> None:
    """A database of Optuna's own holds the rows, and is read back without us."""
    url = f"sqlite:///{tmp_path / 'study.db'}"
    made = optuna.storages.RDBStorage(url)
    make_study(ROWS, SPACE, seed=0, storage=made)

    read = optuna.load_study(study_name=NAME, storage=optuna.storages.RDBStorage(url))
    assert sorted(trial.user_attrs["status"] for trial in read.trials) == sorted(TrialStatus)
    assert read.best_value == min(row.measured_s for row in ROWS if row.measured_s)
