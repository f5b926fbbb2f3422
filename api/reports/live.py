"""What does the page of a study show while it goes on? Where it stands, what it waits for, and its trials."""

from typing import Any

from api.reports.tried import tried
from api.storage.study_tables import FINAL, StudyStatus
from api.web.rendering import render
from tuner.tuning import Tuning

SCRIPTS = ("report.js", "live.js")
_STEPS = (
    (StudyStatus.QUEUED, "Queued"),
    (StudyStatus.PROFILING, "Profiling"),
    (StudyStatus.SEARCHING, "Searching"),
    (StudyStatus.MEASURING, "Measuring"),
    (StudyStatus.DONE, "Done"),
)


def render_live(study: dict[str, Any], tuning: Tuning | None, *, base: str) -> str:
    """The page: the state in it is replaced when something happens."""
    return render("live.html", base=base, scripts=SCRIPTS, **_context(study, tuning))


def render_state(study: dict[str, Any], tuning: Tuning | None, *, base: str) -> str:
    """The state alone, as `live.js` fetches it."""
    return render("live_state.html", base=base, **_context(study, tuning))


def _context(study: dict[str, Any], tuning: Tuning | None) -> dict[str, Any]:
    """`study` is its document; `tuning` its plan with the trials so far, None while there is no plan."""
    status = StudyStatus(study["status"])
    return {
        "study": study,
        "is_final": status in FINAL,
        "steps": [(label, step == status) for step, label in _STEPS],
        "tried": tried(tuning) if tuning is not None else None,
        "plan": tuning,
        "asked": f"{study['created_at'][:16].replace('T', ' ')} UTC",
    }
