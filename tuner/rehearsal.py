"""What does the simulation say of one configuration? Its program, run under the costs of its stages."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from tuner.configuration import Configuration
from tuner.enacted_costs import enacted_costs
from tuner.evaluated import Evaluated
from tuner.evaluation import Evaluator
from tuner.operation_costs import OperationCosts
from tuner.schedules.compiled import Compiled, compile_program
from tuner.schedules.generators import StageTimes, find_recipe, program_of
from tuner.schedules.lowering import lower
from tuner.schedules.program import Program
from tuner.simulation import simulate
from tuner.timeline import Timeline

_KEPT = 64
"""How many programs a process keeps."""

_MOST_KEPT_OPERATIONS = 2_048
"""Forwards and backwards of the longest that it keeps."""

_ITERATIONS = 4
"""Iterations after which an asynchronous schedule has reached its period."""


@dataclass(frozen=True)
class Rehearsed:
    """Seconds of one iteration by part; they sum to `iteration_s`."""

    iteration_s: float
    compute_s: float
    """Work of the busiest rank, with its optimizer step."""
    bubble_s: float
    p2p_s: float
    """Messages on the critical path."""
    all_reduce_s: float
    """Collectives on the critical path."""
    bubble_ratio: float
    """1 − Σ busy / (D·iteration), as `chimera simulate` counts it; waiting for messages is idle too."""


class Rehearsal:
    """Rehearses the configurations of one request; equal programs are made once."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._programs: dict[Configuration, Compiled] = {}

    def rehearse(self, evaluated: Evaluated, index: int) -> Rehearsed:
        """The iteration of one configuration by part; of an asynchronous schedule, one period."""
        timeline = self.timeline(evaluated, index)
        program = timeline.compiled.program
        total = timeline.makespan_s if program.synchronous else period(timeline)
        path = timeline.critical_path()
        compute = min(total, float(timeline.busy_s().max()) / program.iterations)
        all_reduce = min(total - compute, path.collectives_s)
        p2p = min(total - compute - all_reduce, path.messages_s)
        bubble = total - compute - all_reduce - p2p
        return Rehearsed(total, compute, bubble, p2p, all_reduce, timeline.bubble_ratio)

    def take_apart(self, whole: Rehearsed, evaluated: Evaluated, index: int) -> Rehearsed:
        """`whole` with its parts found by leaving things out: the collectives, then the messages too."""
        if not evaluated.variant.scheme.synchronous:
            return whole
        costs = self.costs(evaluated, index)
        program = self.program(evaluated.configuration(index), costs)
        alone = replace(
            costs.without_interference, sync_s=np.zeros_like(costs.sync_s), compress_s=0.0, decompress_s=0.0
        )
        silent = replace(alone, latency_s=0 * alone.latency_s, message_bytes=0 * alone.message_bytes)
        without_sync = simulate(program, alone).makespan_s
        without_messages = simulate(program, silent)
        busiest = float(without_messages.busy_s().max())
        return replace(
            whole,
            compute_s=busiest,
            bubble_s=without_messages.makespan_s - busiest,
            p2p_s=without_sync - without_messages.makespan_s,
            all_reduce_s=whole.iteration_s - without_sync,
        )

    def timeline(self, evaluated: Evaluated, index: int) -> Timeline:
        """The simulated iteration of one configuration; of an asynchronous schedule, several."""
        costs = self.costs(evaluated, index)
        return simulate(self.program(evaluated.configuration(index), costs), costs)

    def program(self, configuration: Configuration, costs: OperationCosts) -> Compiled:
        """The lowered program of one configuration, under the costs where it depends on them."""
        if configuration.schedule == "chimera_split":
            return compile_program(lower(_program(configuration, _stage_times(costs))))
        key = configuration.with_(width=1, micro_batch_size=1, recompute="none")
        if 2 * key.stages * key.micro_batches <= _MOST_KEPT_OPERATIONS:
            return _lowered(key)
        if key not in self._programs:
            self._programs[key] = compile_program(lower(_program(key)))
        return self._programs[key]

    def costs(self, evaluated: Evaluated, index: int) -> OperationCosts:
        """What the operations of one configuration cost."""
        return enacted_costs(self._evaluator, evaluated.variant, evaluated.stages, index=index)


def iterations_of(schedule: str) -> int:
    """Iterations that are simulated of a schedule."""
    return 1 if find_recipe(schedule).synchronous else _ITERATIONS


def period(timeline: Timeline) -> float:
    """Time between the ends of the last two iterations."""
    columns = timeline.compiled.program.columns
    iteration = columns.iteration[timeline.compiled.first]
    last = int(iteration.max())
    ends = [float(timeline.end_s[iteration == number].max()) for number in (last - 1, last)]
    return ends[1] - ends[0]


@lru_cache(maxsize=_KEPT)
def _lowered(configuration: Configuration) -> Compiled:
    """A program that the next request may need too: it holds nothing of models and clusters."""
    return compile_program(lower(_program(configuration)))


def _program(configuration: Configuration, times: StageTimes | None = None) -> Program:
    return program_of(configuration, iterations=iterations_of(configuration.schedule), times=times)


def _stage_times(costs: OperationCosts) -> StageTimes:
    """What a schedule that places work by simulated times must know of the costs."""
    return StageTimes(
        forward=costs.forward_s.tolist(),
        input_gradient=costs.input_gradient_s.tolist(),
        weight_gradient=costs.weight_gradient_s.tolist(),
        hop=float(costs.latency_s.max() + (costs.message_bytes.max() * costs.seconds_per_byte).max()),
    )
