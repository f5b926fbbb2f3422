"""How is a model of a manifest timed and planned, and what of it need not be timed again?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from cli.ci_fingerprint import fingerprint, not_measurable
from cli.errors import InputError

if TYPE_CHECKING:
    from profiles.timings import Profile
    from tuner.regressions.answer import ModelAnswer, Source
    from tuner.regressions.manifest import CheckedModel, Thresholds
    from tuner.regressions.records import ModelRecord
    from tuner.request import PlanRequest


@dataclass(frozen=True)
class Prepared:
    """A model with what the files that the manifest names say of it."""

    model: CheckedModel
    source: Any
    """The `model` of a request; None for a factory."""
    given: Profile | None
    """Where the manifest names a profile document."""
    cluster: Any


Checked = tuple[Prepared, "ModelAnswer", "ModelRecord | None"]
"""A model, what is said of it, and its record where it could be measured."""


def prepare(model: CheckedModel) -> Prepared:
    """Read the files and names of a model; raises InputError and others of bad input, before long work."""
    from cli.sources import read_cluster, read_model
    from profiles import library

    source, given = (None, None) if model.is_factory else read_model(model.model)
    cluster = read_cluster(model.cluster) if model.cluster else None
    prepared = Prepared(model, source, given, cluster)
    if model.accelerator:
        library.load_accelerator(model.accelerator)
    if isinstance(cluster, str):
        library.load_cluster(cluster)
    if isinstance(source, dict) and given is None and model.sequence_length is None:
        raise InputError(
            f"{model.name}: sequence_length is required with a config.json, which does not say it"
        )
    if isinstance(source, str):
        library.load_model_preset(source)
    _request(prepared, source if source is not None else {"profile": "0" * 64})
    return prepared


def examine(
    prepared: Prepared, before: ModelRecord | None, thresholds: Thresholds, *, again: bool, accept: bool
) -> tuple[ModelAnswer, ModelRecord]:
    """Time what changed, plan, compare; what seems slower, and what is to be a baseline, is timed again.

    Raises UnavailableError where layers cannot be timed.
    """
    from tuner.regressions.comparison import compare, worth_repeating
    from tuner.regressions.layers import best_of

    made_of = fingerprint(prepared.model, prepared.source, given=prepared.given)
    known = before is not None and before.fingerprint == made_of and not again
    if prepared.model.on != "estimate" and prepared.given is None and known and before is not None:
        profile = before.profile
        source: Source = "baseline"
    else:
        profile, source = _times(prepared)
    found, baseline = [profile], accept or before is None
    while True:
        best = best_of(*found)
        record = _record(prepared, best, made_of)
        answer = compare(before, record, thresholds, source=source)
        repeat = worth_repeating(answer, best, thresholds, times=len(found), baseline=baseline)
        if source != "measured" or not repeat:
            return answer, record
        found.append(_times(prepared)[0])


def _times(prepared: Prepared) -> tuple[Profile, Source]:
    if prepared.given is not None:
        return prepared.given, "document"
    if prepared.model.on == "estimate":
        return _estimate(prepared), "estimated"
    return _measure(prepared.model), "measured"


def _estimate(prepared: Prepared) -> Profile:
    from profiles import library
    from profiles.timings import Profile
    from tuner.estimate import estimate_timings
    from tuner.inputs import gather

    inputs = gather(_request(prepared, prepared.source), library)
    timings = estimate_timings(
        inputs.description, inputs.accelerator, micro_batch_sizes=prepared.model.micro_batch_sizes
    )
    return Profile(description=inputs.description, timings=timings)


def _measure(model: CheckedModel) -> Profile:
    """Measure on this host; raises UnavailableError for whatever the model's own code raises."""
    from cli.measured import measure

    with not_measurable():
        return measure(
            on=model.on,
            model=model.model,
            micro_batch_sizes=tuple(sorted(set(model.micro_batch_sizes))),
            accelerator=model.accelerator,
            threads=model.threads,
            processes=1,
            budget=model.budget,
            optimizer=model.plan.get("optimizer", "adam"),
            seed=0,
            sequence_length=model.sequence_length,
            precision=model.precision,
            attention=model.attention,
        )
    raise AssertionError("unreachable")  # pragma: no cover


def _record(prepared: Prepared, profile: Profile, made_of: str) -> ModelRecord:
    from profiles import library
    from tuner.planning import answer
    from tuner.regressions.outcomes import outcome_of
    from tuner.regressions.records import ModelRecord

    estimated = prepared.model.on == "estimate" and prepared.given is None
    asked = prepared.source if estimated else {"profile": profile.fingerprint()}
    request = _request(prepared, asked)
    plan = answer(request, library, profile=None if estimated else profile)
    if not estimated and profile.timings.accelerator != plan.cluster.accelerator:
        click.echo(
            f"note: {prepared.model.name} was timed on {profile.timings.accelerator}, and its plan is for "
            f"{plan.cluster.accelerator}, whose times are estimated: give accelerator or cluster to match",
            err=True,
        )
    return ModelRecord(
        name=prepared.model.name,
        fingerprint=made_of,
        question=_question(prepared.model, plan.request, cluster=plan.provenance.hashes["cluster"]),
        profile=profile,
        outcome=outcome_of(plan),
    )


def _question(model: CheckedModel, decided: dict[str, Any], *, cluster: str) -> dict[str, str]:
    """What a baseline was asked, but for the model and its attention, which are what may regress."""
    from importlib.metadata import version

    from profiles.document import canonical_json

    asked = {name: decided[name] for name in ("devices", "mini_batch_size", "sequence_length", "precision")}
    asked |= {f"plan.{name}": value for name, value in sorted(model.plan.items())}
    question = {
        name: value if isinstance(value, str) else canonical_json(value) for name, value in asked.items()
    }
    named = model.cluster or model.accelerator
    return question | {"cluster": f"{named} ({cluster[:12]})", "chimera-tuner": version("chimera-tuner")}


def study_of(prepared: Prepared, record: ModelRecord) -> dict[str, Any]:
    """The body that asks a service for the plan of a record, whose profile it has."""
    from cli.sources import sendable

    estimated = prepared.model.on == "estimate" and prepared.given is None
    asked = _asked(prepared, prepared.source if estimated else {"profile": record.profile.fingerprint()})
    return asked | ({"cluster": sendable(asked["cluster"])} if "cluster" in asked else {})


def _request(prepared: Prepared, source: Any) -> PlanRequest:
    from tuner.errors import RequestError
    from tuner.request import read_request

    try:
        return read_request(_asked(prepared, source) | {"top": 1})
    except RequestError as error:
        raise InputError(f"{prepared.model.name}: {error}") from None


def _asked(prepared: Prepared, source: Any) -> dict[str, Any]:
    model = prepared.model
    shape = {} if "profile" in (source if isinstance(source, dict) else {}) else {
        "sequence_length": model.sequence_length,
        "precision": model.precision,
        "attention": model.attention,
    }  # fmt: skip
    asked = {
        "model": source,
        "cluster": prepared.cluster,
        "accelerator": model.accelerator,
        "devices": model.devices,
        "mini_batch_size": model.mini_batch_size,
        **shape,
        **model.plan,
    }
    return {name: value for name, value in asked.items() if value is not None}
