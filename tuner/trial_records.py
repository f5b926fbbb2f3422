"""How are the trials of a study kept as measurements, and read again where the study goes on?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from profiles.measurement import MeasuredConfiguration, Measurement
from tuner.configuration import Configuration
from tuner.inputs import PlanInputs
from tuner.trials import Option, Trial, TrialStatus

_TITLE = "chimera tune"
_DISTURBED = "the machine was not quiet"


@dataclass(frozen=True)
class Task:
    """What all trials of a study have in common."""

    model: str
    cluster: str
    devices: int
    sequence_length: int
    precision: str
    mini_batch_size: int
    settings: str
    """What a measurement has no field for: optimizer, compression, and who started the ranks."""

    @classmethod
    def of(cls, inputs: PlanInputs, *, model: str, launcher: str) -> "Task":
        """The task of a request; `model` is the name by which predictions of the measurements find it."""
        request = inputs.request
        compressed = "" if request.compression == "none" else f"gradients by {request.compression}, "
        return cls(
            model=model,
            cluster=inputs.cluster.name,
            devices=request.devices,
            sequence_length=inputs.description.sequence_length,
            precision=inputs.description.precision,
            mini_batch_size=request.mini_batch_size,
            settings=f"{_TITLE}: {compressed}{request.optimizer}, optimizer sharding "
            f"{request.optimizer_sharding}, launcher {launcher}",
        )

    def has(self, measurement: Measurement) -> bool:
        """Whether it is one of this study's."""
        ran = measurement.configuration
        return (
            measurement.model == self.model
            and measurement.cluster == self.cluster
            and measurement.devices == self.devices
            and measurement.sequence_length == self.sequence_length
            and measurement.precision == self.precision
            and ran.mini_batch_size == self.mini_batch_size
            and (measurement.where or "").startswith(self.settings)
        )


def measurement_of(trial: Trial, task: Task, *, peaks_bytes: Sequence[int] = ()) -> Measurement | None:
    """The trial as a measurement; None where it gave no answer."""
    if not trial.ran and trial.status is not TrialStatus.OUT_OF_MEMORY:
        return None
    configuration = {
        name: value for name, value in trial.configuration.document().items() if name != "micro_batches"
    }
    noisy = f"; {_DISTURBED}" if trial.status is TrialStatus.NOISY else ""
    value = {
        "model": task.model,
        "cluster": task.cluster,
        "devices": task.devices,
        "sequence_length": task.sequence_length,
        "precision": task.precision,
        "configuration": MeasuredConfiguration(**configuration, mini_batch_size=task.mini_batch_size),
        "status": "ok" if trial.ran else "out_of_memory",
        "iteration_s": trial.measured_s,
        "peak_memory_bytes": tuple(peaks_bytes) or None,
        "where": task.settings + noisy,
    }
    return Measurement.model_validate(value)


def trials_of(
    measurements: Iterable[Measurement], task: Task, options: Sequence[Option]
) -> tuple[Trial, ...]:
    """The rows that measurements of this study stand for, of what can still be tried."""
    predicted = {option.configuration: option.predicted_s for option in options}
    found = []
    for measurement in measurements:
        ran = measurement.configuration
        if not task.has(measurement) or ran.mini_batch_size % (ran.width * ran.micro_batch_size):
            continue
        shape = ran.model_dump(exclude={"mini_batch_size"})
        micro_batches = ran.mini_batch_size // (ran.width * ran.micro_batch_size)
        configuration = Configuration(**shape, micro_batches=micro_batches)
        if configuration in predicted:
            found.append(_row(measurement, configuration, predicted[configuration]))
    return tuple(found)


def _row(measurement: Measurement, configuration: Configuration, predicted_s: float) -> Trial:
    if measurement.status == "out_of_memory" or measurement.iteration_s is None:
        return Trial(configuration, predicted_s, TrialStatus.OUT_OF_MEMORY)
    noisy = (measurement.where or "").endswith(_DISTURBED)
    return Trial(
        configuration,
        predicted_s,
        TrialStatus.NOISY if noisy else TrialStatus.OK,
        measured_s=measurement.iteration_s,
        peak_bytes=max(measurement.peak_memory_bytes or (), default=None),
    )
