"""What can be set beside the choice on the time axis? Other candidates by their place, measured trials."""

from collections.abc import Iterable, Sequence
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

    value: str
    """What the page asks for: the end of an address, or the id of an element that holds the timeline."""
    title: str
    """What it is called in the picture."""
    time: str
    """Its iteration, for the list."""


def candidate_lanes(plan: Plan) -> list[Lane]:
    """Every other candidate of the ranked list."""
    return [
        _candidate(plan, place, f"?candidate={place}")
        for place, candidate in enumerate(plan.candidates[:MOST_LISTED], start=1)
        if not is_choice(plan, candidate)
    ]


def trial_lanes(plan: Plan, numbers: Iterable[int]) -> list[Lane]:
    """The trials of these numbers, whose traces are there."""
    trials = plan.trials if isinstance(plan, Tuning) else ()
    return [_trial(trials[number - 1], number) for number in numbers if number <= len(trials)]


def embedded_lanes(plan: Plan, documents: Sequence[tuple[int, dict[str, Any]]]) -> list[Lane]:
    """The candidates whose timelines a report in one file holds, by their places."""
    return [_candidate(plan, place, element_of(place)) for place, _ in documents]


def element_of(place: int) -> str:
    """The id of the element that holds the timeline of a candidate."""
    return f"timeline-candidate-{place}"


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


def _candidate(plan: Plan, place: int, value: str) -> Lane:
    candidate = plan.candidates[place - 1]
    return Lane(value, f"{place}. {called(candidate)}", seconds(candidate.predicted.iteration_s))


def _trial(trial: TriedTrial, number: int) -> Lane:
    time = seconds(trial.measured) if trial.measured is not None else "no time"
    return Lane(f"?trial={number}", f"Trial {number}, measured: {called(trial.configuration)}", time)


def _named(candidate: Candidate) -> tuple[Any, ...]:
    return tuple(getattr(candidate, name) for name in (*ConfigurationDocument.model_fields, "compression"))
