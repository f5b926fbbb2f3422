"""What does a report say of trials? The measured choice, how far off the model was, and every trial."""

from dataclasses import dataclass
from typing import Any

from api.reports.lanes import called
from api.reports.quantities import percent, seconds
from api.reports.reasons import layout, why_chosen
from api.reports.scatter import Point, colours_of, scatter
from tuner.plan import Chosen, ConfigurationDocument
from tuner.tuning import TriedTrial, Tuning

STATUS_WORDS = {
    "ok": "measured",
    "noisy": "measured, the machine not quiet",
    "out_of_memory": "out of memory",
    "failed": "failed",
    "timed_out": "took too long",
    "queued": "waits",
    "running": "runs",
}


@dataclass(frozen=True)
class Tried:
    """The trials of a study, for a page."""

    lede: str
    picture: dict[str, Any] | None
    colours: dict[str, str]
    rows: tuple[dict[str, Any], ...]
    chosen_s: float | None
    """Measured iteration of the choice, where it was run."""


def tried(tuning: Tuning) -> Tried | None:
    """None where nothing was tried."""
    if not tuning.trials:
        return None
    timed = [trial for trial in tuning.trials if trial.measured is not None]
    colours = colours_of([str(trial.configuration.schedule) for trial in timed])
    points = [_point(trial, colours[str(trial.configuration.schedule)]) for trial in timed]
    rows = sorted(
        enumerate(tuning.trials, start=1),
        key=lambda entry: (entry[1].measured is None, entry[1].measured or entry[1].predicted),
    )
    return Tried(
        lede=_lede(tuning, measured=len(timed)),
        picture=scatter(points, unit="s an iteration") if points else None,
        colours=colours,
        rows=tuple(_row(number, trial, tuning.chosen) for number, trial in rows),
        chosen_s=_chosen_s(tuning),
    )


def why_measured(tuning: Tuning) -> str:
    """Why this choice: it was run, and was the fastest; the model's reasons where it was not run."""
    chosen, chosen_s = tuning.chosen, _chosen_s(tuning)
    if chosen is None or chosen_s is None:
        return why_chosen(tuning)
    others = sorted(
        trial.measured
        for trial in tuning.trials
        if trial.measured is not None and not is_chosen(trial.configuration, chosen)
    )
    told = f"{layout(chosen)} was run and took {seconds(chosen_s)} an iteration"
    if others:
        told += f", the fastest of {len(others) + 1} that were measured: {percent(others[0] / chosen_s - 1)} "
        told += "faster than the next"
    if tuning.model_choice is not None and tuning.model_choice != tuning.winner:
        told += f". The model alone had put {called(tuning.model_choice)} first"
    return f"{told}."


def _chosen_s(tuning: Tuning) -> float | None:
    chosen = tuning.chosen
    if chosen is None:
        return None
    times = [trial.measured for trial in tuning.trials if is_chosen(trial.configuration, chosen)]
    return min((time for time in times if time is not None), default=None)


def is_chosen(configuration: ConfigurationDocument, chosen: Chosen) -> bool:
    """Whether a trial ran what was chosen."""
    return all(getattr(chosen, name) == value for name, value in configuration.model_dump().items())


def _lede(tuning: Tuning, *, measured: int) -> str:
    error, total = tuning.model_error, len(tuning.trials)
    told = f"{total} trial{'s' * (total != 1)}, {measured} with a time."
    if error.before is not None and error.after is not None:
        told += (
            f" The model was off by {percent(error.before)} on average before them, and is by "
            f"{percent(error.after)} where each is predicted from all others."
        )
    told += f" Measuring every configuration would have taken {tuning.trials_saved:,} more."
    return f"{told} Stopped because {tuning.stopped}." if tuning.stopped else told


def _point(trial: TriedTrial, colour: str) -> Point:
    measured = trial.measured or trial.predicted
    words = f"{called(trial.configuration)}: predicted {trial.predicted:.4g} s, measured {measured:.4g} s"
    return Point(trial.predicted, measured, colour, words)


def _row(number: int, trial: TriedTrial, chosen: Chosen | None) -> dict[str, Any]:
    return {
        "number": number,
        "configuration": trial.configuration,
        "predicted": trial.predicted,
        "measured": trial.measured,
        "error": None if trial.measured is None else trial.predicted / trial.measured - 1,
        "status": STATUS_WORDS[trial.status],
        "message": trial.message,
        "chosen": chosen is not None and is_chosen(trial.configuration, chosen),
    }
