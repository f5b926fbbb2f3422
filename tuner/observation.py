"""What does the model say of one configuration at any coefficients, and how does that depend on them?"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from profiles.measurement import Measurement
from profiles.timings import Profile
from tuner.coefficients import NAMES, values_of, with_values
from tuner.critical_costs import CriticalCosts, critical_costs, last_event
from tuner.enacted_costs import enacted_costs
from tuner.evaluated import Evaluated
from tuner.evaluation import Evaluator
from tuner.inputs import Library
from tuner.layers import LayerCosts
from tuner.operation_costs import OperationCosts
from tuner.rehearsal import Rehearsal, period
from tuner.replay import UNPREDICTABLE, model_name, replay
from tuner.schedules.scheme import Floats
from tuner.simulation import simulate
from tuner.timeline import Timeline

_OF_LAYERS = frozenset({"compute_factor", "traffic_factor", "launch_floor_s"})
"""Coefficients that change the times of layers."""

_STEP = 1e-4
"""Relative step of a derivative: costs are linear in the coefficients."""
_STEP_OF_LAYERS = 1e-5
"""The same of layers, whose times bend where a launch takes over."""
_ROUNDING = 1e-7
"""Relative derivatives below are rounding: none of the costs depends on the coefficient."""


@dataclass(frozen=True)
class Line:
    """The iteration time near some coefficients: value_s + gradient·(coefficients − at)."""

    at: Floats
    value_s: float
    gradient: Floats

    def extended_s(self, coefficients: Floats) -> float:
        """The line at other coefficients: never above the simulated time of a synchronous schedule."""
        return float(self.value_s + self.gradient @ (coefficients - self.at))


class Predictor:
    """The simulated iteration of one configuration as a function of the coefficients."""

    def __init__(self, evaluator: Evaluator, evaluated: Evaluated, index: int = 0) -> None:
        self._inputs, self._evaluated, self._index = evaluator.inputs, evaluated, index
        self._rehearsal = Rehearsal(evaluator)
        self._sizes = evaluated.micro_batch_sizes
        self._layers = evaluator.layers
        self.synchronous = evaluated.variant.scheme.synchronous
        self.values = values_of(evaluator.inputs.cluster.software)
        """The coefficients of the cluster that the configuration was evaluated on."""

    @property
    def traffic_follows(self) -> bool:
        """Whether the cluster's compute factor is that of memory traffic, too."""
        return self._inputs.cluster.software.traffic_factor is None

    @property
    def notes(self) -> tuple[str, ...]:
        """What was estimated or extrapolated in the times of layers, and what of them cannot be true."""
        return self._layers.sources(self._sizes.tolist()).notes

    @property
    def block_backward_s(self) -> float:
        """Time of a block's backward that was measured or estimated, without the software's factor."""
        layers = self._inputs.description.layers
        times = self._evaluated_layers().backward_s[self._index]
        return min(float(time) for time, layer in zip(times, layers, strict=True) if layer.kind == "block")

    def _evaluated_layers(self) -> LayerCosts:
        plain = self._inputs.cluster.software.model_copy(
            update={"compute_factor": 1.0, "traffic_factor": None, "launch_floor_s": None}
        )
        cluster = self._inputs.cluster.model_copy(update={"software": plain})
        return Evaluator(replace(self._inputs, cluster=cluster)).layers.costs(self._sizes)

    @property
    def simulated_s(self) -> float:
        """The iteration on the cluster as it is."""
        return self._rehearsal.rehearse(self._evaluated, self._index).iteration_s

    def line(self, coefficients: Floats) -> Line:
        """The iteration simulated at these coefficients, with its derivatives."""
        costs = self._costs(coefficients)
        compiled = self._rehearsal.program(self._evaluated.configuration(self._index), costs)
        timeline = simulate(compiled, costs.without_interference)
        if self.synchronous:
            chains = [(1.0, critical_costs(timeline, last_event(timeline)))]
        else:
            last = compiled.program.iterations - 1
            ends = (1.0, last_event(timeline, last)), (-1.0, last_event(timeline, last - 1))
            chains = [(sign, critical_costs(timeline, event)) for sign, event in ends]
        value_s = _sum(chains, costs)
        steps = [self._step(coefficients, position) for position in range(len(NAMES))]
        gradient = [
            (_sum(chains, self._costs(coefficients, position, step)) - value_s) / step
            for position, step in enumerate(steps)
        ]
        exact = [slope if abs(slope) > _ROUNDING * abs(value_s) else 0.0 for slope in gradient]
        return Line(coefficients, value_s + self._interference_s(costs, timeline), np.array(exact))

    def _interference_s(self, costs: OperationCosts, undisturbed: Timeline) -> float:
        """What collectives and computation add by slowing each other down; taken to stay near by."""
        if not costs.interferes:
            return 0.0
        slowed = simulate(undisturbed.compiled, costs)
        if self.synchronous:
            return slowed.makespan_s - undisturbed.makespan_s
        return period(slowed) - period(undisturbed)

    @staticmethod
    def _step(coefficients: Floats, position: int) -> float:
        relative = _STEP_OF_LAYERS if NAMES[position] in _OF_LAYERS else _STEP
        return relative * (float(coefficients[position]) or 1.0)

    def _costs(self, coefficients: Floats, position: int | None = None, step: float = 0.0) -> OperationCosts:
        """Costs at the coefficients, one of them a step larger."""
        moved = coefficients.copy()
        if position is not None:
            moved[position] += step
        evaluator = self._evaluator(moved)
        if position is None or NAMES[position] in _OF_LAYERS:
            stages = evaluator.retimed(self._evaluated.variant, self._evaluated.stages, self._sizes)
            if position is None:
                self._timed = stages
        else:
            stages = self._timed
        return enacted_costs(evaluator, self._evaluated.variant, stages, index=self._index)

    def _evaluator(self, coefficients: Floats) -> Evaluator:
        return Evaluator(replace(self._inputs, cluster=with_values(self._inputs.cluster, coefficients)))


@dataclass(frozen=True)
class Observation:
    """A measured iteration time, and the model's prediction of it."""

    measurement: Measurement
    measured_s: float
    predictor: Predictor

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        return self.measurement.cluster

    @property
    def model(self) -> str:
        """What identifies the model."""
        return model_name(self.measurement)


def observe(
    measurements: Sequence[Measurement], library: Library, *, profiles: Sequence[Profile] = ()
) -> tuple[list[Observation], list[str]]:
    """The measurements that have a time and can be predicted, and why each other one cannot be used."""
    found, skipped = [], []
    for number, measurement in enumerate(measurements):
        measured_s = iteration_s(measurement)
        if measured_s is None:
            continue
        try:
            replayed = replay(measurement, library, profiles=profiles)
        except UNPREDICTABLE as error:
            skipped.append(f"measurement {number}: {error}"[:1_000])
            continue
        found.append(Observation(measurement, measured_s, Predictor(replayed.evaluator, replayed.evaluated)))
    return found, skipped


def iteration_s(measurement: Measurement) -> float | None:
    """The measured time of an iteration; None where there is none."""
    if measurement.status != "ok":
        return None
    if measurement.iteration_s is not None:
        return measurement.iteration_s
    if measurement.throughput_samples_per_s is None:
        return None
    return measurement.configuration.mini_batch_size / measurement.throughput_samples_per_s


def _sum(chains: Sequence[tuple[float, CriticalCosts]], costs: OperationCosts) -> float:
    return sum(sign * chain.total_s(costs) for sign, chain in chains)
