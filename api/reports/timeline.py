"""What does a report in one file hold of its timeline? All of it where it fits, else the reason why not."""

import json
from collections.abc import Sequence
from typing import Any

from api.reports.lanes import HeldLane, Lane, called, candidate_lane, is_choice
from api.reports.quantities import seconds
from profiles.errors import DocumentError
from profiles.timings import Profile
from tuner.enactment import configuration_of, enact_candidate, operations
from tuner.errors import TunerError
from tuner.held_memory import HeldMemory
from tuner.inputs import Library
from tuner.plan import Plan
from tuner.request import PlanRequest
from tuner.timeline import Timeline
from tuner.timeline_document import timeline_document

MOST_EMBEDDED_BYTES = 2_400_000
"""Of all timelines: the whole file is at most 8 MB, 5 MB of it Plotly's script."""
MOST_BESIDE = 5
"""Other candidates whose timelines are in the file, to be compared with the choice."""
_BESIDE_OPERATIONS = 4_096
"""Of a candidate that is among them: about 170 kB."""


def embedded_timeline(
    request: PlanRequest, plan: Plan, library: Library, *, profile: Profile | None = None
) -> dict[str, Any] | str | None:
    """The timeline of what `plan` chose, or why it is left out; None where nothing was chosen."""
    if plan.chosen is None:
        return None
    try:
        enacted = enact_candidate(request, plan.chosen, library, profile=profile)
    except (TunerError, DocumentError) as error:
        return str(error)
    return embedded(enacted.timeline, enacted.held)


def embedded_beside(
    request: PlanRequest, plan: Plan, library: Library, *, profile: Profile | None = None
) -> list[HeldLane]:
    """The best other candidates whose timelines are short enough, each of its own schedule."""
    found: list[HeldLane] = []
    seen = {plan.chosen.schedule if plan.chosen else ""}
    for place, candidate in enumerate(plan.candidates, start=1):
        short = operations(configuration_of(candidate)) <= _BESIDE_OPERATIONS
        if candidate.schedule in seen or is_choice(plan, candidate) or not short:
            continue
        seen.add(candidate.schedule)
        try:
            enacted = enact_candidate(request, candidate, library, profile=profile)
        except (TunerError, DocumentError):
            continue
        lane = candidate_lane(candidate, place, value=f"timeline-candidate-{place}")
        found.append((lane, timeline_document(enacted.timeline, enacted.held)))
        if len(found) == MOST_BESIDE:
            break
    return found


def within_room(timeline: dict[str, Any] | str | None, beside: Sequence[HeldLane]) -> list[HeldLane]:
    """As many of the timelines beside as a file has room for, the first of them first."""
    left = MOST_EMBEDDED_BYTES - (_size(timeline) if isinstance(timeline, dict) else 0)
    kept = []
    for lane, document in beside:
        left -= _size(document)
        if left < 0:
            break
        kept.append((lane, document))
    return kept


def simulated_beside(plan: Plan, timeline: dict[str, Any] | str | None) -> list[HeldLane]:
    """The simulation of the choice, where what was measured is shown as the choice."""
    if plan.chosen is None or not isinstance(timeline, dict):
        return []
    title, time = f"Simulated: {called(plan.chosen)}", seconds(timeline["makespan"])
    return [(Lane("As predicted", "timeline-simulated", title, time), timeline)]


def embedded(timeline: Timeline, held: HeldMemory | None = None) -> dict[str, Any] | str:
    """A timeline, simulated or measured, or why it is too long."""
    document = timeline_document(timeline, held)
    size = _size(document)
    if size <= MOST_EMBEDDED_BYTES:
        return document
    count = len(document["operations"]["rank"])
    return (
        f"the timeline has {count:,} operations, {size / 1e6:.1f} MB, and a report in one file holds at most "
        f"{MOST_EMBEDDED_BYTES / 1e6:.1f} MB of it: open the study on a service to see it"
    )


def _size(document: dict[str, Any]) -> int:
    return len(json.dumps(document, separators=(",", ":")))
