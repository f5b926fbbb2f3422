"""What is tuned? The request, the model that runs, and what of them must be measured here first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from cli.errors import InputError, UnavailableError
from cli.progress import show

if TYPE_CHECKING:
    from profiles.cluster import ClusterProfile
    from profiles.timings import Profile

MOST_LOCAL_DEVICES = 64
_MEASURED_CLUSTER = "local-cpu"
"""The cluster that is this very machine."""
_LINK_BUDGET_S = 0.1
_FIXED = {"gradient_precision": "float32", "rank_order": "pipe_major"}
"""Options of a plan that a trial does not have, and what it does."""


@dataclass(frozen=True)
class Subject:
    """What is planned and run."""

    runs: Any
    """A preset's name, {"config": ...} or a factory's name."""
    name: str
    """By which predictions of its measurements find the model."""
    value: dict[str, Any]
    """The request, without its model and cluster."""
    cluster: Any
    profile: Profile | None
    device: str

    @property
    def is_unknown(self) -> bool:
        """Whether it has to be measured before anything is known of it: a factory's model."""
        return isinstance(self.runs, str) and ":" in self.runs and self.profile is None

    def request(self) -> dict[str, Any]:
        """The request as `tuner.request.read_request` reads it."""
        model = {"profile": self.profile.fingerprint(), "name": self.name} if self.profile else self.runs
        return self.value | {"model": model, "cluster": self.cluster}


def read_subject(asked: dict[str, Any], *, profile: str | None, here: bool) -> Subject:
    """Raises InputError for what cannot be run, UnavailableError where this machine cannot run it."""
    from cli.sources import read_cluster, read_model
    from executor.models.factories import is_factory

    model, known = asked.pop("model"), read_model(profile)[1] if profile else None
    if profile and known is None:
        raise InputError(
            f"--profile {profile[:200]!r} is no profile document: write one with chimera profile"
        )
    if is_factory(model):
        runs: Any = model
    else:
        runs, weightless = read_model(model)
        if weightless is not None:
            raise InputError(
                "a profile has no weights to run: give --model the preset or config.json it is of, and "
                "--profile the profile"
            )
        if isinstance(runs, dict) and asked["sequence_length"] is None and known is None:
            raise InputError("--sequence-length is required with a config.json, which does not say it")
    cluster = asked.pop("cluster")
    if cluster is None:
        raise InputError("--cluster names where the trials run: local-cpu for processes on this machine")
    _refuse_what_trials_lack(asked, runs)
    name = known.description.name if known else runs[-200:] if isinstance(runs, str) else "config"
    subject = Subject(runs, name, asked, read_cluster(cluster), known, "cpu")
    _check_request(subject)
    return replace(subject, device=_device(subject, here=here))


def may_fit(subject: Subject) -> bool:
    """Whether it is worth measuring: memory is known before times are; a factory's is not."""
    from profiles import library
    from tuner.options import options_of
    from tuner.request import read_request

    if subject.is_unknown:
        return True
    return bool(options_of(read_request(subject.request()), library, profile=subject.profile))


def measured(subject: Subject, *, sizes: tuple[int, ...] | None, budget_s: float) -> Subject:
    """The same with the times of its layers and the links of this machine, where they are not known."""
    if subject.profile is None:
        subject = replace(subject, profile=_profile(subject, sizes=sizes, budget_s=budget_s))
    if subject.cluster == _MEASURED_CLUSTER and subject.value["devices"] > 1:
        subject = replace(subject, cluster={"document": _links(subject)})
    return subject


def _check_request(subject: Subject) -> None:
    """What would be refused after measuring is refused before; a factory's model is not known yet."""
    from profiles import library
    from tuner.inputs import gather
    from tuner.request import read_request

    request = read_request(subject.request())
    if not subject.is_unknown:
        gather(request, library, profile=subject.profile)


def _refuse_what_trials_lack(asked: dict[str, Any], runs: Any) -> None:
    from profiles import library

    given = {name: value for name, value in _FIXED.items() if asked.get(name, value) != value}
    for name, value in given.items():
        raise InputError(
            f"trials run with --{name.replace('_', '-')} {value} alone: leave it out, or ask chimera plan, "
            "which runs nothing"
        )
    preset = isinstance(runs, str) and ":" not in runs
    own = library.load_model_preset(runs).attention if preset else "flash"
    if asked["attention"] not in {None, own}:
        raise InputError(
            f"trials of this model run with --attention {own}: leave it out, or ask chimera plan"
        )


def _device(subject: Subject, *, here: bool) -> str:
    """Of torch, for the accelerator that is planned for."""
    from executor.measuring.environment import has_cuda
    from profiles import library

    devices, accelerator = subject.value["devices"], subject.value["accelerator"]
    accelerator = accelerator or _cluster_of(subject).node.accelerator
    device = "cpu" if library.load_accelerator(accelerator).name == "cpu" else "cuda"
    if not here:
        return device
    if devices > MOST_LOCAL_DEVICES:
        raise InputError(
            f"--devices {devices:,} are as many processes, and {MOST_LOCAL_DEVICES} is the most on one "
            "machine"
        )
    if device == "cuda" and not has_cuda():
        raise UnavailableError(
            f"trials on {accelerator} need one, and torch sees no CUDA device on this machine: tune there, "
            "or here with --cluster local-cpu; chimera plan needs no device"
        )
    return device


def _cluster_of(subject: Subject) -> ClusterProfile:
    from profiles import library

    if isinstance(subject.cluster, dict):
        document: ClusterProfile = subject.cluster["document"]
        return document
    return library.load_cluster(subject.cluster)


def _profile(subject: Subject, *, sizes: tuple[int, ...] | None, budget_s: float) -> Profile:
    from cli.measured import decided
    from executor.errors import ConfigurationError, ExecutorError, ModelError
    from executor.measuring.profiling import Plan
    from executor.tuning.here import profile_here, sizes_to_profile

    value, processes = subject.value, subject.value["devices"]
    largest = value["mini_batch_size"] // (value["width"] or 1)
    chosen = sizes or sizes_to_profile(largest, value["micro_batch_size"])
    if max(chosen) > value["mini_batch_size"]:
        raise InputError(
            f"--micro-batch-sizes has {max(chosen):,}, and no micro-batch is larger than the mini-batch of "
            f"{value['mini_batch_size']:,}: leave it out"
        )
    alone = subject.device != "cpu" or processes == 1 or subject.is_unknown
    how = "" if alone else f" by {processes} processes at once, as ranks run"
    click.echo(f"Measuring the layers of {subject.name} at B = {', '.join(map(str, chosen))}{how}", err=True)
    accelerator = value["accelerator"] or _cluster_of(subject).node.accelerator
    plan = Plan(
        chosen,
        device=subject.device,
        budget_s=budget_s,
        optimizer=value["optimizer"],
        accelerator=accelerator,
    )
    shape = decided(
        subject.runs, {name: value[name] for name in ("sequence_length", "precision", "attention")}
    )
    try:
        found = profile_here(subject.runs, plan, processes=processes, progress=show, **shape)
    except (ConfigurationError, ModelError) as error:
        raise InputError(str(error)) from None
    except ExecutorError as error:
        raise UnavailableError(str(error)) from None
    for note in found.timings.notes:
        click.echo(f"note: {note}", err=True)
    return found


def _links(subject: Subject) -> ClusterProfile:
    from executor.errors import ExecutorError
    from executor.tuning.here import links_here

    click.echo("Measuring messages, collectives and the runtime between 2 processes", err=True)
    try:
        found, notes = links_here(_cluster_of(subject), budget_s=_LINK_BUDGET_S)
    except ExecutorError as error:
        raise UnavailableError(str(error)) from None
    for note in notes:
        click.echo(f"note: {note}", err=True)
    return found
