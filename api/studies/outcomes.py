"""What do the trials of a study say? The winner, what the model was off by, and what was saved."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from api.storage.tables import Study, StudyTrial
from api.studies.trials import as_row, find_trial, jobs_of, read_trials, status_of
from tuner.plan import ConfigurationDocument, Plan
from tuner.refinement import Proposal, Stop
from tuner.trials import Option
from tuner.tuning import Tuning, summarise


def beginning(plan: dict[str, Any]) -> dict[str, Any]:
    """What is kept before any trial: what the model chose, and with which compression trials run."""
    chosen, names = plan["chosen"], ConfigurationDocument.model_fields
    kept = {key: value for key, value in chosen.items() if key in names} if chosen else None
    return {"model_choice": kept, "compression": chosen["compression"] if chosen else "none"}


def outcome(
    options: Sequence[Option], trials: list[StudyTrial], *, before: dict[str, Any] | None, stop: Stop | None
) -> dict[str, Any]:
    """A summary of the rows so far, as it is kept; `before` is the one that was kept until now."""
    summary = summarise(options, [as_row(trial) for trial in trials])
    winner = find_trial(trials, summary.winner)
    return {
        "winner": winner.number if winner else None,
        "error_before": summary.error_before,
        "error_after": summary.error_after,
        "tried": summary.tried,
        "trials_saved": summary.trials_saved,
        "device_seconds": summary.device_seconds,
        "stopped": {"reason": stop.reason.value, "text": stop.text} if stop else None,
        "options": len(options),
        "model_choice": (before or {}).get("model_choice"),
        "compression": (before or {}).get("compression"),
    }


def proposal(made: Proposal) -> dict[str, Any]:
    """Why something is tried, as it is kept beside the trial."""
    numbers = {key: getattr(made, key) for key in ("predicted_s", "expected_s", "low_s", "high_s")}
    return numbers | {"by": made.by, "reason": made.reason}


def as_tuning(session: Session, study: Study, plan: Plan) -> Tuning | None:
    """The plan with the trials, as reports show it; None where no trials were asked for."""
    told = tuning(session, study)
    if told is None:
        return None
    kept = {name: getattr(plan, name) for name in Plan.model_fields}
    winner = told.pop("winner")
    configuration = winner["configuration"] if winner else None
    return Tuning.model_validate(
        kept
        | {key: value for key, value in told.items() if key in Tuning.model_fields}
        | {"winner": configuration},
    )


def tuning(session: Session, study: Study) -> dict[str, Any] | None:
    """What people see of it, with the keys of `chimera tune`; None where no trials were asked for."""
    if study.refine is None:
        return None
    trials = read_trials(session, study.id)
    jobs = jobs_of(session, trials)
    kept = study.outcome or {}
    winner = next((trial for trial in trials if trial.number == kept.get("winner")), None)
    rows = [as_row(trial) for trial in trials]
    stopped = kept.get("stopped")
    return {
        "trials": [
            {
                "configuration": trial.configuration,
                "predicted": row.predicted_s,
                "measured": row.measured_s,
                "status": status_of(trial, jobs.get(trial.job_id)).value,
                "message": row.message,
            }
            for trial, row in zip(trials, rows, strict=True)
        ],
        "model_error": {"before": kept.get("error_before"), "after": kept.get("error_after")},
        "winner": _winner(study, winner) if winner else None,
        "model_choice": kept.get("model_choice"),
        "configurations": kept.get("options", 0),
        "trials_saved": kept.get("trials_saved", 0),
        "device_seconds": kept.get("device_seconds", 0.0),
        "stopped": stopped["text"] if stopped else None,
    }


def _winner(study: Study, trial: StudyTrial) -> dict[str, Any]:
    """The fastest measured, and what it gave."""
    measured_s = as_row(trial).measured_s or 0.0
    return {
        "number": trial.number,
        "configuration": trial.configuration,
        "predicted": trial.proposal["predicted_s"],
        "measured": measured_s,
        "throughput_samples_per_s": study.mini_batch_size / measured_s,
    }
