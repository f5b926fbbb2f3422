"""What does the model of a trial decide: where it is cut, what is tied, and how long it should take?

Known families and profiles are answered by arithmetic, without torch; a factory's code has to be run.
"""

from __future__ import annotations

from typing import Any

from executor.errors import ConfigurationError
from executor.trials.prepared_trial import PreparedTrial, configuration_of, prepare
from executor.trials.trial_request import MOST_BUCKETS, TrialRequest
from profiles import library
from profiles.timings import Profile
from tuner.enactment import Expectation, expect
from tuner.inputs import gather
from tuner.request import read_request
from tuner.schedules import SCHEMES


def resolve(
    request: TrialRequest, *, cluster: Any = "local-cpu", profile: Profile | None = None
) -> tuple[PreparedTrial, Expectation | None]:
    """The request that will run, with its partition and tied stages, and what it should take.

    cluster: a preset's name or {"document": ...}. The times of layers are those of `profile`, else estimated
    from the data sheet of the cluster's accelerator. None is expected of an emulated run, which says itself
    what it takes, of float64, of a cut that is neither balanced nor even, and of a factory without a profile.
    Raises ConfigurationError for what cannot run, and for a profile of another model.
    """
    if request.emulate is not None:
        return prepare(request), None
    is_factory = isinstance(request.model, str) and ":" in request.model
    if is_factory and profile is None:
        return prepare(_read_factory(request)), None
    if profile is not None and not is_factory:
        _refuse_other_model(request, profile, cluster=cluster)
    expected = expected_of(request, cluster=cluster, profile=profile)
    _check_cut(request, blocks=sum(expected.stage_layers))
    known = {
        "tied": expected.tied,
        "partition": request.partition or expected.stage_layers,
        "buckets": _buckets(request, expected.gradient_bytes),
    }
    prepared = prepare(request.model_copy(update=known))
    own_cut = request.partition not in {None, expected.stage_layers}
    return prepared, None if own_cut or request.precision == "float64" else expected


def expected_of(request: TrialRequest, *, cluster: Any, profile: Profile | None) -> Expectation:
    """What a run should take, evenly cut where that is the partition asked for, else balanced."""
    balanced = _expect(request, cluster=cluster, profile=profile)
    if request.partition in {None, balanced.stage_layers}:
        return balanced
    even = _expect(request, cluster=cluster, profile=profile, partition="even")
    return even if even.stage_layers == request.partition else balanced


def _refuse_other_model(request: TrialRequest, profile: Profile, *, cluster: Any) -> None:
    """Raises ConfigurationError where the profile is not of what will run."""
    asked = _asked(request, cluster=cluster, profile=None)
    own, taken = gather(read_request(asked), library).description, profile.description
    facts = {
        "blocks": (len(taken.blocks), len(own.blocks)),
        "parameters": (taken.parameters, own.parameters),
        "tokens in a sample": (taken.sequence_length, own.sequence_length),
    }
    for what, (there, here) in facts.items():
        if there != here:
            raise ConfigurationError(
                f"the profile is of {taken.name} with {there:,} {what}, and {own.name} has {here:,}: "
                "give the profile of what runs (`chimera profile`), or none"
            )
    if request.precision in {"bfloat16", "float16", "float32"} and taken.precision != request.precision:
        raise ConfigurationError(
            f"the profile was taken in {taken.precision}, and the run is in {request.precision}: "
            f"give --precision {taken.precision}, or a profile taken in {request.precision}"
        )


def _check_cut(request: TrialRequest, *, blocks: int) -> None:
    """Raises ConfigurationError for numbers of blocks that are not the model's, before anything starts."""
    if request.partition is not None:
        from executor.running.layout import cut_layers

        cut_layers(blocks, configuration_of(request).stages, request.partition)


def _expect(
    request: TrialRequest, *, cluster: Any, profile: Profile | None, partition: str = "balanced"
) -> Expectation:
    asked = _asked(request, cluster=cluster, profile=profile) | {"partition": partition}
    configuration = configuration_of(request).with_(schedule=_planned_schedule(request))
    return expect(read_request(asked), configuration, library, profile=profile)


def _asked(request: TrialRequest, *, cluster: Any, profile: Profile | None) -> dict[str, Any]:
    """The plan that a run is expected by."""
    return {
        "model": {"profile": profile.fingerprint()} if profile else request.model,
        "cluster": cluster,
        "devices": request.ranks,
        "mini_batch_size": configuration_of(request).mini_batch_size,
        "sequence_length": None if profile else request.sequence_length,
        "precision": None if profile else _precision(request),
        "optimizer": request.optimizer,
        "optimizer_sharding": request.optimizer_sharding,
        "compression": request.compression,
        "schedules": [_planned_schedule(request)],
    }


def _planned_schedule(request: TrialRequest) -> str:
    """One that cannot be planned runs the operations of 1F1B, and is cut alike."""
    return request.schedule if request.schedule in SCHEMES else "dapple"


def _buckets(request: TrialRequest, gradient_bytes: int) -> int:
    """As many as leave none of the largest stage above the request's bucket_bytes."""
    return max(request.buckets, min(MOST_BUCKETS, -(-gradient_bytes // request.bucket_bytes)))


def _precision(request: TrialRequest) -> str:
    return "float32" if request.precision == "float64" else request.precision


def _read_factory(request: TrialRequest) -> TrialRequest:
    """Ask the factory itself how many layers it has and what it ties; raises ModelError."""
    from executor.running.layout import cut_layers
    from executor.trials.factory_facts import ask_factory

    facts = ask_factory(str(request.model), seed=request.seed, timeout_s=request.timeout_s)
    cuts = cut_layers(facts.layers, configuration_of(request).stages, request.partition)
    stage_of = {layer: stage for stage, layers in enumerate(cuts) for layer in layers}
    tied = tuple(tuple(sorted({stage_of[layer] for layer, _ in group})) for group in facts.tied)
    return request.model_copy(update={"tied": tied, "partition": tuple(map(len, cuts))})


def refuse_other_ties(request: TrialRequest, tied: tuple[tuple[int, ...], ...]) -> None:
    """Raises ConfigurationError where a model ties other stages than the program was made for."""
    if tied != request.tied:
        raise ConfigurationError(
            f"the model ties the stages {list(map(list, tied))}, and the program was made for "
            f"{list(map(list, request.tied))}: is the profile of this model?"
        )
