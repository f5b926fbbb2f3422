"""Which documents does a request speak of? Names become documents, None becomes the default."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from profiles.cluster import ClusterProfile
from profiles.device import Accelerator
from profiles.model import ModelDescription
from profiles.preset import ModelPreset
from profiles.timings import LayerTimings, Profile
from tuner.assumed_hardware import assume_links, assume_memory
from tuner.errors import RequestError
from tuner.estimate import describe
from tuner.request import InlineCluster, InlineModel, PlanRequest


class Library(Protocol):
    """Where shipped documents come from; `profiles.library` is one."""

    def load_model_preset(self, name: str) -> ModelPreset: ...

    def load_accelerator(self, name: str) -> Accelerator: ...

    def load_cluster(self, name: str) -> ClusterProfile: ...

    def load_timings(self) -> tuple[LayerTimings, ...]: ...


@dataclass(frozen=True)
class PlanInputs:
    """All that a plan is computed from."""

    request: PlanRequest
    """With precision, attention and sequence length decided."""
    description: ModelDescription
    timings: tuple[LayerTimings, ...]
    """Timings that may apply, best first; layers without any are estimated from the data sheet."""
    accelerator: Accelerator
    cluster: ClusterProfile


def gather(request: PlanRequest, library: Library, *, profile: Profile | None = None) -> PlanInputs:
    """Resolve the names of `request`; `profile` is the stored or uploaded profile that it refers to."""
    if profile is not None:
        _check_profile(request, profile)
    cluster = assume_links(_cluster(request, library), request)
    accelerator = assume_memory(
        library.load_accelerator(request.accelerator or cluster.node.accelerator), request
    )
    _check_devices(request, cluster)
    named = isinstance(request.model, str) and profile is None
    preset = library.load_model_preset(str(request.model)) if named else None
    description = profile.description if profile else _describe(request, preset)
    timings = (profile.timings,) if profile else library.load_timings()
    decided = _decide(request, description, partition=preset.partition if preset else "balanced")
    if decided.precision not in accelerator.peak_flops:
        raise RequestError(
            f"{accelerator.name} has no {decided.precision} arithmetic; "
            f"choose precision {' or '.join(sorted(accelerator.peak_flops))}"
        )
    usable = tuple(entry for entry in timings if _applies(entry, description, accelerator))
    return PlanInputs(decided, description, usable, accelerator, cluster)


def taken_elsewhere(profile: Profile | None, accelerator: Accelerator) -> list[str]:
    """A sentence where times of a profile are not used, for they are of another device."""
    if profile is None or profile.timings.accelerator == accelerator.name:
        return []
    taken_on = profile.timings.accelerator
    return [f"the profile was taken on {taken_on}: times on {accelerator.name} are estimated"]


def _cluster(request: PlanRequest, library: Library) -> ClusterProfile:
    if isinstance(request.cluster, InlineCluster):
        return request.cluster.document
    return library.load_cluster(request.cluster or "generic")


def _check_profile(request: PlanRequest, profile: Profile) -> None:
    """A profile is named by what is in it, so that one that was changed is not taken for the one meant."""
    named = request.model.profile if isinstance(request.model, InlineModel) else None
    content = profile.fingerprint()
    if named is not None and named != content:
        raise RequestError(
            f"the request names the profile {named}, and what was found under it has the content {content}: "
            "it was changed, or is another one; name it by its content, or store it again"
        )


def _check_devices(request: PlanRequest, cluster: ClusterProfile) -> None:
    if cluster.max_devices is not None and request.devices > cluster.max_devices:
        raise RequestError(
            f"devices {request.devices:,} exceed the {cluster.max_devices:,} of cluster {cluster.name}: "
            f"use at most {cluster.max_devices:,} or another cluster"
        )


def _describe(request: PlanRequest, preset: ModelPreset | None) -> ModelDescription:
    model = request.model
    if preset is None:
        if not isinstance(model, InlineModel):
            raise RequestError(f"the model {model} is not known")
        if model.config is None:
            raise RequestError("the profile that the request names was not found")
        if request.sequence_length is None:
            raise RequestError("sequence_length is required with a config: a config.json does not say it")
        return describe(
            model.config,
            sequence_length=request.sequence_length,
            precision=request.precision or "bfloat16",
            attention=request.attention or "flash",
            name=model.name or "config",
        )
    return describe(
        preset.config,
        sequence_length=request.sequence_length or preset.sequence_length,
        precision=request.precision or preset.precision,
        attention=request.attention or preset.attention,
        name=preset.name,
    )


def _decide(
    request: PlanRequest, description: ModelDescription, *, partition: Literal["balanced", "even"]
) -> PlanRequest:
    """The request with the description's own values; a profile's cannot be changed by the request."""
    decided: dict[str, Any] = {"partition": request.partition or partition}
    for option in ("precision", "attention", "sequence_length"):
        asked, has = getattr(request, option), getattr(description, option)
        if asked is not None and asked != has:
            raise RequestError(f"{option} {asked} was asked for, but the profile was taken at {has}")
        decided[option] = has
    if decided["precision"] == "float32" and request.gradient_precision == "same":
        decided["gradient_precision"] = "float32"
    return request.model_copy(update=decided)


def _applies(timings: LayerTimings, description: ModelDescription, accelerator: Accelerator) -> bool:
    return (
        timings.accelerator == accelerator.name
        and timings.precision == description.precision
        and timings.attention == description.attention
        and timings.sequence_length == description.sequence_length
    )
