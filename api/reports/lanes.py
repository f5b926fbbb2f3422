"""What can be set beside the choice on the time axis? Other candidates by their place, measured trials."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from api.reports.quantities import schedule, seconds
from tuner.plan import Candidate, ConfigurationDocument, Plan
from tuner.tuning import TriedTrial, Tuning

MOST_LISTED = 200
"""Candidates that are offered; `top` of a request lists many more."""


@dataclass(frozen=True)
class Lane:
    """Something to set beside the choice."""

    kind: str
    """The group of the list in which it stands."""
    value: str
    """What the page asks for: the end of an address, or the id of an element that holds the timeline."""
    title: str
    """What it is called in the picture."""
    time: str
    """Its iteration, for the list."""


HeldLane = tuple[Lane, dict[str, Any]]
"""A lane whose timeline a report in one file holds."""


def candidate_lanes(plan: Plan) -> list[Lane]:
    """Every other candidate of the ranked list."""
    return [
        candidate_lane(candidate, place, value=f"?candidate={place}")
        for place, candidate in enumerate(plan.candidates[:MOST_LISTED], start=1)
        if not is_choice(plan, candidate)
    ]


def trial_lanes(plan: Plan, numbers: Iterable[int]) -> list[Lane]:
    """The trials of these numbers, whose traces are there."""
    trials = plan.trials if isinstance(plan, Tuning) else ()
    return [
        trial_lane(trials[number - 1], number, value=f"?trial={number}")
        for number in numbers
        if number <= len(trials)
    ]


def candidate_lane(candidate: Candidate, place: int, *, value: str) -> Lane:
    """A candidate by its place."""
    time = seconds(candidate.predicted.iteration_s)
    return Lane("Candidates", value, f"{place}. {called(candidate)}", time)


def trial_lane(trial: TriedTrial, number: int, *, value: str) -> Lane:
    """What a trial recorded."""
    time = seconds(trial.measured) if trial.measured is not None else "no time"
    return Lane("Measured", value, f"Trial {number}, measured: {called(trial.configuration)}", time)


def is_choice(plan: Plan, candidate: Candidate) -> bool:
    """Whether a candidate is what the plan chose."""
    return plan.chosen is not None and _named(candidate) == _named(plan.chosen)


def called(ran: Candidate | ConfigurationDocument) -> str:
    """A configuration in a few words."""
    told = f"{schedule(ran.schedule or '')}, W={ran.width} × D={ran.depth}, B={ran.micro_batch_size}"
    extras = [f"recompute={ran.recompute}"] if ran.recompute not in {None, "none"} else []
    extras += [str(ran.scaling)] if ran.scaling not in {None, "direct"} else []
    extras += [f"{2 * ran.pipe_pairs} pipes"] if ran.pipe_pairs and ran.pipe_pairs > 1 else []
    return ", ".join([told, *extras])


def _named(candidate: Candidate) -> tuple[Any, ...]:
    return tuple(getattr(candidate, name) for name in (*ConfigurationDocument.model_fields, "compression"))
