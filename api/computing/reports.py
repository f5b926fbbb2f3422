"""What does the report of a study say, as one file?"""

from typing import Any

from pydantic import TypeAdapter

from api.computing.asked import Asked, read_calibrated
from api.computing.result import Result
from api.reports.lanes import Lane
from api.reports.report import render_report
from api.reports.timeline import embedded_beside, embedded_timeline
from profiles import library
from tuner.plan import Plan
from tuner.tuning import Tuning

LANES: TypeAdapter[list[tuple[Lane, dict[str, Any]]]] = TypeAdapter(list[tuple[Lane, dict[str, Any]]])


def report(asked: Asked, plan: str, *, has_trials: bool, recorded: str) -> Result:
    """The HTML of a plan, or of a Tuning where it has trials, beside what those `recorded`."""
    request, profile = read_calibrated(asked)
    shown = (Tuning if has_trials else Plan).model_validate_json(plan)
    html = render_report(
        shown,
        standalone=True,
        timeline=embedded_timeline(request, shown, library, profile=profile),
        beside=embedded_beside(request, shown, library, profile=profile) + LANES.validate_json(recorded),
    )
    return Result(html.encode())
