"""What did the trials of a study give? The measured winner, what the model was off by, and what was saved."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuner.configuration import Configuration
from tuner.correction import Correct, correct
from tuner.plan import ConfigurationDocument, Plan, PlanPart
from tuner.trials import Option, Trial, TrialStatus, in_order, measured


@dataclass(frozen=True)
class Summary:
    """A study so far."""

    winner: Trial | None
    """The fastest measured; None while nothing was."""
    error_before: float | None
    """Mean of |predicted / measured − 1| over the measured trials, by the model alone."""
    error_after: float | None
    """The same where each trial is predicted by the model as all other trials correct it."""
    tried: int
    """Configurations that were given to a worker."""
    trials_saved: int
    """Trials that measuring every configuration would have taken beyond these rows, at least 0."""
    device_seconds: float


def summarise(options: Sequence[Option], trials: Sequence[Trial], *, learn: Correct = correct) -> Summary:
    """What the rows of a study say; the same in whatever order they come."""
    seen = measured(trials)
    unseen_s = learn(trials, options).unseen_s if seen else np.zeros(0)
    took = np.array([trial.measured_s for trial in seen], dtype=np.float64)
    predicted = np.array([trial.predicted_s for trial in seen])
    known = {option.configuration for option in options} | {trial.configuration for trial in trials}
    return Summary(
        winner=min(seen, key=lambda trial: trial.measured_s or 0.0, default=None),
        error_before=float(np.abs(predicted / took - 1).mean()) if seen else None,
        error_after=float(np.abs(unseen_s / took - 1).mean()) if seen else None,
        tried=len({trial.configuration for trial in trials}),
        trials_saved=max(0, len(known) - len(trials)),
        device_seconds=sum(trial.device_seconds for trial in in_order(trials)),
    )


class TriedTrial(PlanPart):
    """One trial beside its prediction."""

    configuration: ConfigurationDocument
    predicted: float
    """Seconds of an iteration, by the model before any trial."""
    measured: float | None
    """Seconds of an iteration, where it ran."""
    status: TrialStatus
    message: str | None = None
    """Why it ended so, where that is not well."""


class ModelError(PlanPart):
    """Mean of |predicted / measured − 1| over the measured trials; None while nothing was measured."""

    before: float | None
    """By the model alone."""
    after: float | None
    """Each trial by the model as all other trials correct it."""


class Tuning(Plan):
    """A plan, and what real trials said of it: the document of `chimera tune`."""

    trials: tuple[TriedTrial, ...]
    """In the order of their configurations."""
    model_error: ModelError
    winner: ConfigurationDocument | None
    """The fastest measured: `chosen`, where the plan knows the trials."""
    model_choice: ConfigurationDocument | None = None
    """What the model chose before any trial."""
    trials_saved: int
    """Trials that measuring every configuration would have taken beyond these."""
    stopped: str | None
    """Why no more were made; None where the study can go on."""


def tuning(
    plan: Plan,
    options: Sequence[Option],
    trials: Sequence[Trial],
    *,
    before: Plan | None = None,
    stopped: str | None = None,
    learn: Correct = correct,
) -> Tuning:
    """The document of a study on a plan, which has these trials or not; `before` is the plan without them."""
    summary = summarise(options, trials, learn=learn)
    kept: dict[str, Any] = {name: getattr(plan, name) for name in Plan.model_fields}
    return Tuning(
        **kept,
        trials=tuple(map(tried_trial, in_order(trials))),
        model_error=ModelError(before=summary.error_before, after=summary.error_after),
        winner=_document(summary.winner.configuration) if summary.winner else None,
        model_choice=_choice(before or plan),
        trials_saved=summary.trials_saved,
        stopped=stopped,
    )


def tried_trial(trial: Trial) -> TriedTrial:
    """One row as it stands in the document."""
    return TriedTrial(
        configuration=_document(trial.configuration),
        predicted=trial.predicted_s,
        measured=trial.measured_s,
        status=trial.status,
        message=trial.message,
    )


def _choice(plan: Plan) -> ConfigurationDocument | None:
    if plan.chosen is None:
        return None
    return ConfigurationDocument(
        **{name: getattr(plan.chosen, name) for name in ConfigurationDocument.model_fields}
    )


def _document(configuration: Configuration) -> ConfigurationDocument:
    return ConfigurationDocument(**configuration.document())
