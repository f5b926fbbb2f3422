"""What does a simulation say? One document without a clock: equal questions get equal answers."""

import numpy as np
from pydantic import BaseModel, ConfigDict

from tuner.configuration import Scaling
from tuner.lower_bounds import lower_bounds
from tuner.operation_costs import OperationCosts
from tuner.schedules.closed_forms import makespan
from tuner.schedules.program import COMPUTE, Program
from tuner.simulation_request import SimulationRequest
from tuner.timeline import Timeline


class AnswerPart(BaseModel):
    """A piece of the answer; times are in the unit of the costs."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Path(AnswerPart):
    """How many operations of each kind are on the chain that decides the makespan; a half counts 1/2."""

    forwards: float
    backwards: float
    """Whole backwards and input gradients."""
    weight_gradients: float


class Bounds(AnswerPart):
    """What no order of the same work can beat."""

    busiest_rank: float
    longest_chain: float


class RankAnswer(AnswerPart):
    """One rank."""

    rank: int
    busy: float
    """Time that it computes."""
    bubble_ratio: float
    """Share of the makespan that it does not."""
    span: float
    """From its first start to its last end."""
    peak_live_micro_batches: float


class SimulationAnswer(AnswerPart):
    """The simulated iterations of one schedule."""

    schedule: str
    depth: int
    micro_batches: int
    scaling: Scaling
    pipe_pairs: int
    chunks: int
    iterations: int
    operations: int
    """Forwards and backwards, or their parts, of all ranks."""
    makespan: float
    """From the first start to the last end, of all iterations."""
    bubble_ratio: float
    """1 − Σ busy / (D·makespan)."""
    peak_live_micro_batches: list[float]
    """For each rank: forwards issued minus backwards finished, in micro-batches of its whole share."""
    critical_path: Path
    """On a tie the predecessor on the same rank."""
    closed_form: float | None
    """Makespan by formula; null where there is none for these costs."""
    steady_period: float | None
    """Of an asynchronous schedule: from the end of the last iteration but one to that of the last."""
    lower_bounds: Bounds
    ranks: list[RankAnswer]


def describe(request: SimulationRequest, timeline: Timeline, costs: OperationCosts) -> SimulationAnswer:
    """The answer to a request whose program took this timeline under these costs."""
    program = timeline.compiled.program
    peaks = (timeline.peak_live() / program.chunks).tolist()
    path = timeline.critical_path()
    bounds = lower_bounds(timeline, costs)
    return SimulationAnswer(
        schedule=program.scheme,
        depth=program.depth,
        micro_batches=program.micro_batches,
        scaling=request.scaling,
        pipe_pairs=request.pipe_pairs,
        chunks=program.chunks,
        iterations=program.iterations,
        operations=int(np.isin(program.columns.kind, list(COMPUTE)).sum()),
        makespan=timeline.makespan_s,
        bubble_ratio=timeline.bubble_ratio,
        peak_live_micro_batches=peaks,
        critical_path=Path(
            forwards=path.forwards, backwards=path.backwards, weight_gradients=path.weight_gradients
        ),
        closed_form=_closed_form(request, program),
        steady_period=_steady_period(timeline),
        lower_bounds=Bounds(busiest_rank=bounds.busiest_rank_s, longest_chain=bounds.longest_chain_s),
        ranks=_ranks(timeline, peaks),
    )


def _ranks(timeline: Timeline, peaks: list[float]) -> list[RankAnswer]:
    busy, whole = timeline.busy_s().tolist(), timeline.makespan_s
    computes, rank = timeline.computes, timeline.compiled.rank
    first, last = np.full(len(busy), np.inf), np.zeros(len(busy))
    np.minimum.at(first, rank[computes], timeline.start_s[computes])
    np.maximum.at(last, rank[computes], timeline.end_s[computes])
    spans = np.where(np.array(busy) > 0, last - first, 0.0).tolist()
    return [
        RankAnswer(
            rank=number,
            busy=busy[number],
            bubble_ratio=1 - busy[number] / whole,
            span=spans[number],
            peak_live_micro_batches=peak,
        )
        for number, peak in enumerate(peaks)
    ]


def _closed_form(request: SimulationRequest, program: Program) -> float | None:
    """One iteration with free messages, collectives and updates, weight gradients half of the backward."""
    extra = request.hop_latency or request.sync_time or request.update_time
    if extra or request.iterations > 1 or 2 * request.deferred != request.backward:
        return None
    return makespan(
        request.schedule,
        depth=request.depth,
        micro_batches=request.micro_batches,
        forward=request.forward,
        backward=request.backward,
        scaling=request.scaling,
        pipe_pairs=request.pipe_pairs,
        chunks=program.chunks,
        pending=request.pending,
    )


def _steady_period(timeline: Timeline) -> float | None:
    program = timeline.compiled.program
    if program.synchronous or program.iterations == 1:
        return None
    iteration = program.columns.iteration[timeline.compiled.first]
    last = program.iterations - 1
    before, end = (float(timeline.end_s[iteration == i].max()) for i in (last - 1, last))
    return end - before
