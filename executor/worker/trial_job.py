"""How is a trial run for the service? As `chimera run` does it, with both timelines as an attachment."""

from __future__ import annotations

from typing import Any

from executor.errors import ConfigurationError
from executor.launchers.launcher import find_launcher
from executor.trials.compared_trace import compared_trace
from executor.trials.resolution import resolve
from executor.trials.trial import Trial as Run
from executor.trials.trial import run_trial
from executor.trials.trial_request import TrialRequest, read_trial
from executor.trials.trial_result import result_of
from executor.worker.answer import Answer, LostError, Tell
from executor.worker.model_source import model_source
from executor.worker.surroundings import Surroundings, torch_device
from profiles import library
from profiles.document import Attention
from tuner.assignments import DEFAULT_ATTENTION, DEFAULT_PRECISION, Trial
from tuner.attachments import Attachment
from tuner.messages import DeviceGroup


def run_trial_job(asked: Trial, here: Surroundings, tell: Tell) -> Answer:
    """Run it; out of memory, a failure and a time-out are results.

    Raises ConfigurationError, ModelError or TunerError for what cannot run, LostError where a process was
    taken away.
    """
    ranks = asked.configuration.width * asked.configuration.depth
    group = here.devices_for(asked.accelerator, count=ranks)
    prepared, expected = resolve(_request(asked, group, here=here))
    tell({"doing": f"{prepared.configuration} in {ranks} processes"})
    # Elsewhere than on a CPU the cluster, and so the prediction, is for the service to know.
    on_cpu = group.accelerator == "cpu"
    trial = run_trial(
        prepared,
        costs=expected.costs if expected and on_cpu else None,
        launcher=find_launcher(here.launcher, here.wanted),
        tell=lambda text: tell({"doing": text}),
    )
    _refuse_lost(trial)
    return Answer(result_of(trial), tuple(filter(None, _attachments(trial, with_trace=asked.trace))))


def _request(asked: Trial, group: DeviceGroup, *, here: Surroundings) -> TrialRequest:
    """The options of `chimera run`; raises ConfigurationError for what it does not have."""
    _refuse_unknown(asked)
    chosen = asked.configuration.model_dump(mode="json")
    if asked.emulate is not None:
        what: dict[str, Any] = {"emulate": asked.emulate.model_dump(mode="json")}
    else:
        what = {
            "model": model_source(asked.model)[0],
            "sequence_length": asked.sequence_length,
            "precision": asked.precision or _precision_of(asked),
        }
    return read_trial(
        chosen
        | what
        | {
            "chunks": asked.configuration.chunks if asked.configuration.chunks > 1 else None,
            "partition": asked.stage_layers,
            "optimizer": asked.optimizer,
            "optimizer_sharding": asked.optimizer_sharding,
            "compression": asked.compression,
            "iterations": asked.iterations,
            "warm_up": asked.warm_up,
            "seed": asked.seed,
            "memory_limit_bytes": asked.memory_limit_bytes,
            "timeout_s": min(asked.timeout_s, here.limit_s),
            "launcher": here.launcher,
            "device": torch_device(group),
        }
    )


def _refuse_unknown(asked: Trial) -> None:
    differs = {
        "gradient_precision": asked.gradient_precision != "float32",
        "rank_order": asked.rank_order != "pipe_major",
        "attention": asked.emulate is None and asked.attention not in {None, _attention_of(asked)},
    }
    for option, is_asked in differs.items():
        if is_asked:
            raise ConfigurationError(
                f"a trial has no {option} {getattr(asked, option)!r}: leave it out, or measure without it"
            )


def _attention_of(asked: Trial) -> Attention:
    if isinstance(asked.model, str):
        return library.load_model_preset(asked.model).attention
    return DEFAULT_ATTENTION


def _precision_of(asked: Trial) -> str:
    if isinstance(asked.model, str):
        return library.load_model_preset(asked.model).precision
    return DEFAULT_PRECISION


def _refuse_lost(trial: Run) -> None:
    """A process that was taken away, rather than having failed, says nothing of the configuration."""
    failure = trial.outcome.failure
    if failure is not None and failure.lost:
        raise LostError(failure.message, trial.outcome.document())


def _attachments(trial: Run, *, with_trace: bool) -> list[Attachment | None]:
    found: list[Attachment | None] = []
    if with_trace and trial.measured is not None:
        found.append(Attachment.pack("trace.json", compared_trace(trial.measured, trial.predicted)))
    failure = trial.outcome.failure
    if failure is not None and failure.log:
        found.append(Attachment.pack("rank.log", failure.log))
    return found
