"""Which models are to be checked, how, and how much may change? A manifest in TOML (docs/ci.md)."""

import re
import tomllib
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from profiles.document import Attention, Precision, describe_faults
from tuner.errors import RequestError
from tuner.request import MAX_DEVICES, MAX_MINI_BATCH, MAX_SEQUENCE, PlanRequest

MOST_BYTES = 1_000_000
SERVICE = "service"
"""The baseline that is not a file."""
_OWN_OPTIONS = frozenset(
    {"model", "cluster", "accelerator", "devices", "mini_batch_size", "sequence_length", "precision"}
    | {"attention", "why", "top", "calibration", "global_batch_size"}
)

_FACTORY = re.compile(r".+:[^\W\d]\w*")


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class _Table(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class Thresholds(_Table):
    """How much worse a model may become before it counts, as shares."""

    time: Annotated[float, Field(gt=0, le=10)] = 0.1
    """Of the time of a layer."""
    memory: Annotated[float, Field(ge=0, le=10)] = 0.02
    """Of what a layer keeps, and of the fullest device."""
    throughput: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """Of the predicted samples per second."""
    spreads: Annotated[float, Field(ge=0, le=100)] = 3.0
    """A time counts only beyond so many times the uncertainty of both measurements together."""


class CheckedModel(_Table):
    """A model, where its layers are timed, and the plan that is asked for."""

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[\w.+:/@-][\w .+:/@-]*$")]
    model: Annotated[str, Field(min_length=1, max_length=500)]
    """A preset, a config.json or its folder, a profile or a factory; paths start at the manifest."""
    on: Literal["estimate", "cpu", "cuda"]
    accelerator: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    cluster: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    devices: Annotated[int, Field(ge=1, le=MAX_DEVICES)]
    mini_batch_size: Annotated[int, Field(ge=1, le=MAX_MINI_BATCH)]
    sequence_length: Annotated[int, Field(ge=1, le=MAX_SEQUENCE)] | None = None
    precision: Precision | None = None
    attention: Attention | None = None
    micro_batch_sizes: Annotated[
        tuple[Annotated[int, Field(ge=1, le=10**8)], ...],
        BeforeValidator(_tuple),
        Field(min_length=1, max_length=100),
    ] = (1, 2, 4)
    """Sizes at which layers are timed."""
    threads: Annotated[int, Field(ge=1, le=1024)] = 1
    budget: Annotated[float, Field(ge=0, le=3600)] = 2.0
    """Seconds to repeat a layer at a size."""
    sources: Annotated[tuple[str, ...], BeforeValidator(_tuple), Field(max_length=100)] = ()
    """Patterns of the files that a factory depends on; by default all Python files beside it and below."""
    plan: dict[str, Any] = {}
    """Further options of `chimera plan`, with _ for -."""

    @property
    def is_factory(self) -> bool:
        """Whether the model is code of the user's: package.module:function or path/file.py:function."""
        return _FACTORY.fullmatch(self.model) is not None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.is_factory and self.on == "estimate":
            raise ValueError("a factory is code, which is measured: give on = 'cpu' or on = 'cuda'")
        if self.is_factory and (self.sequence_length or self.precision or self.attention):
            raise ValueError("a factory has its own sequence length, precision and attention: leave them out")
        if self.cluster is None and self.accelerator is None:
            raise ValueError("name a cluster or an accelerator")
        unknown = self.plan.keys() - (PlanRequest.model_fields.keys() - _OWN_OPTIONS)
        if unknown:
            allowed = ", ".join(sorted(PlanRequest.model_fields.keys() - _OWN_OPTIONS))
            raise ValueError(f"plan.{min(unknown)[:60]} is no option here; there are {allowed}")
        return self


class Manifest(_Table):
    """What `chimera ci` reads."""

    baseline: Annotated[str, Field(min_length=1, max_length=500)] = "chimera-baseline.json"
    """File of the baseline, from the manifest's folder; `service`: what was accepted last in the service."""
    fallback: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    """File that stands in where the service does not answer; accepting writes it too."""
    project: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """What the repository is called in the service; by default as GitHub or GitLab calls it."""
    thresholds: Thresholds = Thresholds()
    models: Annotated[tuple[CheckedModel, ...], BeforeValidator(_tuple), Field(min_length=1, max_length=1000)]

    @property
    def file(self) -> str | None:
        """The file of a baseline, or the one that stands in for the service."""
        return self.fallback if self.baseline == SERVICE else self.baseline

    @model_validator(mode="after")
    def _named_once(self) -> Self:
        names = [model.name for model in self.models]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"two models are called {twice[0]!r}: give each a name of its own")
        return self


def read_manifest(raw: bytes, *, name: str) -> Manifest:
    """The manifest in a TOML text, its `defaults` filled in; raises RequestError saying where it is wrong."""
    try:
        value = tomllib.loads(raw.decode("utf-8").replace("\r\n", "\n"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise RequestError(f"{name} is not TOML: {error}") from None
    defaults = value.pop("defaults", {})
    models = value.get("models")
    if not isinstance(defaults, dict):
        raise RequestError(f"{name}: [defaults] must be a table")
    if isinstance(models, list):
        value["models"] = [_filled(entry, defaults) for entry in models]
    try:
        return Manifest.model_validate(value)
    except ValidationError as error:
        raise RequestError(describe_faults(error, name, value=value)) from None


def _filled(entry: Any, defaults: dict[str, Any]) -> Any:
    """A model with the defaults where it says nothing; the options of plans one by one."""
    if not isinstance(entry, dict):
        return entry
    plans = [table.get("plan") for table in (defaults, entry)]
    merged: dict[str, Any] = {
        key: part for plan in plans if isinstance(plan, dict) for key, part in plan.items()
    }
    return {
        **defaults,
        **entry,
        **({"plan": merged} if all(isinstance(p, dict | None) for p in plans) else {}),
    }
