"""How is a simulated schedule told to people? The answer first, then the picture, then what to do next."""

from collections.abc import Iterator

from cli.quantities import percent
from tuner.gantt import gantt
from tuner.simulation_answer import SimulationAnswer
from tuner.simulation_request import SimulationRequest
from tuner.timeline import Timeline


def describe_simulation(
    request: SimulationRequest, answer: SimulationAnswer, timeline: Timeline, *, columns: int, colour: bool
) -> Iterator[str]:
    """Lines for a terminal of so many columns."""
    yield from _answer(request, answer)
    yield ""
    yield from gantt(timeline, columns=columns, colour=colour)
    yield ""
    yield from _limits(answer)
    yield _next(answer)


def _answer(request: SimulationRequest, answer: SimulationAnswer) -> Iterator[str]:
    kind = answer.schedule
    if answer.scaling != "direct":
        kind += f" ({answer.scaling})"
    if answer.pipe_pairs > 1:
        kind += f" with {2 * answer.pipe_pairs} pipes"
    if answer.chunks > 1:
        kind += f" with {answer.chunks} chunks a rank"
    rounds = f" in each of {answer.iterations} iterations" if answer.iterations > 1 else ""
    yield (
        f"{kind} on D={answer.depth} ranks with N={answer.micro_batches} micro-batches{rounds}, forward "
        f"{request.forward:g} and backward {request.backward:g}:"
    )
    peaks = answer.peak_live_micro_batches
    alive = f"{max(peaks):g}" if min(peaks) == max(peaks) else f"{min(peaks):g} to {max(peaks):g}"
    yield (
        f"it takes {answer.makespan:g}, the ranks idle {percent(answer.bubble_ratio)} of that, and at most "
        f"{alive} micro-batches are alive on a rank."
    )
    if answer.steady_period is not None:
        yield f"Without a flush an iteration takes {answer.steady_period:g} once the pipeline is full."


def _limits(answer: SimulationAnswer) -> Iterator[str]:
    path, bounds = answer.critical_path, answer.lower_bounds
    weights = f" and {path.weight_gradients:g} weight gradients" if path.weight_gradients else ""
    yield (
        f"On the critical path {path.forwards:g} forwards, {path.backwards:g} backwards{weights} follow each "
        f"other; no order takes less than {max(bounds.busiest_rank, bounds.longest_chain):g}."
    )
    if answer.closed_form is not None:
        yield f"The formula of this schedule gives {answer.closed_form:g}."


def _next(answer: SimulationAnswer) -> str:
    units, left = divmod(answer.micro_batches, answer.depth)
    direct = answer.schedule == "chimera" and answer.scaling == "direct" and answer.pipe_pairs == 1
    other = "--scaling doubling and halving" if direct and units > 1 and not left else "another --schedule"
    return f"Next: compare {other}; look closer: add --trace trace.json and open it in ui.perfetto.dev."
