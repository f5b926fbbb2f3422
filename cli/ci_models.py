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
class Check:
    """A model with what the files that the manifest names say of it."""

    model: CheckedModel
    source: Any
    """The `model` of a request; None for a factory."""
    given: Profile | None
    """Where the manifest names a profile document."""
    cluster: Any


def prepare(model: CheckedModel) -> Check:
    """Read the files and names of a model; raises InputError and others of bad input, before long work."""
    from cli.sources import read_cluster, read_model
    from profiles import library

    source, given = (None, None) if model.is_factory else read_model(model.model)
    cluster = read_cluster(model.cluster) if model.cluster else None
    check = Check(model, source, given, cluster)
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
    _request(check, source if source is not None else {"profile": "0" * 64})
    return check


def examine(
    check: Check, before: ModelRecord | None, thresholds: Thresholds, *, again: bool, twice: bool
) -> tuple[ModelAnswer, ModelRecord]:
    """Time what changed, plan, compare. What seems slower is timed once more; with `twice` all that is timed.

    Raises UnavailableError where the layers cannot be timed.
    """
    from tuner.regressions.comparison import compare, worth_repeating
    from tuner.regressions.layers import best_of

    made_of = fingerprint(check.model, check.source, given=check.given)
    known = before is not None and before.fingerprint == made_of and not again
    if check.model.on != "estimate" and check.given is None and known and before is not None:
        profile = before.profile
        source: Source = "baseline"
    else:
        profile, source = _times(check)
    if source == "measured" and (twice or before is None):
        profile = best_of(profile, _times(check)[0])
    record = _record(check, profile, made_of)
    answer = compare(before, record, thresholds, source=source)
    if source == "measured" and not twice and worth_repeating(answer):
        record = _record(check, best_of(profile, _times(check)[0]), made_of)
        answer = compare(before, record, thresholds, source=source)
    return answer, record


def _times(check: Check) -> tuple[Profile, Source]:
    if check.given is not None:
        return check.given, "document"
    if check.model.on == "estimate":
        return _estimate(check), "estimated"
    return _measure(check.model), "measured"


def _estimate(check: Check) -> Profile:
    from profiles import library
    from profiles.timings import Profile
    from tuner.estimate import estimate_timings
    from tuner.inputs import gather

    inputs = gather(_request(check, check.source), library)
    timings = estimate_timings(
        inputs.description, inputs.accelerator, micro_batch_sizes=check.model.micro_batch_sizes
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


def _record(check: Check, profile: Profile, made_of: str) -> ModelRecord:
    from profiles import library
    from tuner.planning import answer
    from tuner.regressions.outcomes import outcome_of
    from tuner.regressions.records import ModelRecord

    estimated = check.model.on == "estimate" and check.given is None
    asked = check.source if estimated else {"profile": profile.fingerprint()}
    request = _request(check, asked)
    plan = answer(request, library, profile=None if estimated else profile)
    if not estimated and profile.timings.accelerator != plan.cluster.accelerator:
        click.echo(
            f"note: {check.model.name} was timed on {profile.timings.accelerator}, and its plan is for "
            f"{plan.cluster.accelerator}, whose times are estimated: give accelerator or cluster to match",
            err=True,
        )
    return ModelRecord(
        name=check.model.name,
        fingerprint=made_of,
        question=_question(check.model, plan.request, cluster=plan.provenance.hashes["cluster"]),
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


def _request(check: Check, source: Any) -> PlanRequest:
    from tuner.errors import RequestError
    from tuner.request import read_request

    model = check.model
    shape = {} if "profile" in (source if isinstance(source, dict) else {}) else {
        "sequence_length": model.sequence_length,
        "precision": model.precision,
        "attention": model.attention,
    }  # fmt: skip
    asked = {
        "model": source,
        "cluster": check.cluster,
        "accelerator": model.accelerator,
        "devices": model.devices,
        "mini_batch_size": model.mini_batch_size,
        "top": 1,
        **shape,
        **model.plan,
    }
    try:
        return read_request({name: value for name, value in asked.items() if value is not None})
    except RequestError as error:
        raise InputError(f"{model.name}: {error}") from None
