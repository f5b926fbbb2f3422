"""What does the model say of a configuration that was measured?"""

from dataclasses import dataclass

import numpy as np

from profiles.cluster import ClusterProfile
from profiles.measurement import Measurement
from tuner.errors import RequestError
from tuner.evaluation import Evaluated, Evaluator, Variant
from tuner.inputs import Library, PlanInputs, gather
from tuner.rehearsal import Rehearsal
from tuner.request import read_request
from tuner.schedules import find_scheme
from tuner.space import Layout


@dataclass(frozen=True)
class Replayed:
    """A measured configuration, evaluated at its one micro-batch size."""

    evaluator: Evaluator
    evaluated: Evaluated

    @property
    def closed_form_s(self) -> float:
        """Time of an iteration by equation 1."""
        return float(self.evaluated.iteration_s[0])

    @property
    def simulated_s(self) -> float:
        """Time of an iteration by simulation: what a plan says."""
        return Rehearsal(self.evaluator).rehearse(self.evaluated, 0).iteration_s


def replay(measurement: Measurement, library: Library, *, cluster: ClusterProfile | None = None) -> Replayed:
    """The measured configuration as the model sees it; `cluster` replaces the named one.

    Raises RequestError where the schedule has no closed form for it or the model is not a preset.
    """
    if not isinstance(measurement.model, str):
        raise RequestError(
            "a measurement of a model given by its sizes cannot be replayed yet: name a preset"
        )
    ran = measurement.configuration
    request = read_request(
        {
            "model": measurement.model,
            "cluster": measurement.cluster,
            "devices": measurement.devices,
            "mini_batch_size": ran.mini_batch_size,
            "sequence_length": measurement.sequence_length,
            "precision": measurement.precision,
        }
    )
    inputs = gather(request, library)
    if cluster is not None:
        inputs = PlanInputs(inputs.request, inputs.description, inputs.timings, inputs.accelerator, cluster)
    scheme = find_scheme(ran.schedule)
    layout = Layout(ran.width, ran.depth)
    variant = Variant(scheme, layout, ran.scaling, ran.pipe_pairs, ran.recompute)
    evaluator = Evaluator(inputs)
    evaluated = evaluator.evaluate(variant, np.array([ran.micro_batch_size]))
    if evaluated is None:
        micro_batches = ran.mini_batch_size // (ran.width * ran.micro_batch_size)
        reason = (
            scheme.illegal(ran.depth, micro_batches, scaling=ran.scaling, pipe_pairs=ran.pipe_pairs)
            or "halving needs an even micro-batch size"
        )
        raise RequestError(f"the measured configuration has no closed form: {reason}")
    return Replayed(evaluator, evaluated)
