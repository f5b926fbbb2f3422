"""What is asked of the tuner: the options of `chimera plan`, and the body of `POST /v1/plans`."""

import reprlib
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.aliases import AliasChoices

from profiles.cluster import ClusterProfile
from profiles.document import Attention, Precision, describe_faults
from tuner.compression import read_compressions
from tuner.errors import RequestError, UnsupportedOptionError
from tuner.schedule_names import SCHEDULES, called_here

MAX_DEVICES = 10_000_000
MAX_MINI_BATCH = 100_000_000
MAX_SEQUENCE = 10_000_000
MAX_MEMORY = 10**15

Optimizer = Literal["sgd", "momentum", "adam", "adamw"]
Partition = Literal["balanced", "even"]
Target = Literal["any", "own", "megatron", "torchtitan", "deepspeed"]


def _names(value: Any) -> Any:
    """Read "a,b" as ("a", "b"), and a list as a tuple."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value) if isinstance(value, list) else value


def _known_schedules(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in SCHEDULES:
            raise ValueError(
                f"unknown schedule {name[:60]!r}{called_here(name)}; choose from {', '.join(SCHEDULES)}"
            )
    if not names:
        raise ValueError(f"name at least one schedule of {', '.join(SCHEDULES)}")
    return tuple(dict.fromkeys(names))


def _named_or_inline(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, str | dict | BaseModel):
        inline = {"model": '{"config": {...}} or {"profile": id}', "cluster": '{"document": {...}}'}
        raise ValueError(f"give a preset's name, {inline[str(info.field_name)]}, not {reprlib.repr(value)}")
    return value


def _tuples(value: Any) -> Any:
    """JSON has lists where documents have tuples."""
    if isinstance(value, dict):
        return {key: _tuples(entry) for key, entry in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _given(name: str, *kinds: str) -> dict[str, Any]:
    """In JSON Schema: the key is there, and not null."""
    return {"required": [name], "properties": {name: {"type": list(kinds)}}}


class InlineModel(BaseModel):
    """A model that is not a preset: a Hugging Face configuration, or the id of a stored profile."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={"oneOf": [_given("config", "object"), _given("profile", "string")]},
    )

    config: dict[str, Any] | None = None
    """A parsed Hugging Face config.json."""
    profile: Annotated[str, Field(max_length=200)] | None = None
    """The id of a profile stored by the service."""
    name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """What the plan calls the model."""

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if (self.config is None) == (self.profile is None):
            raise ValueError("give exactly one of 'config' and 'profile'")
        return self


class InlineCluster(BaseModel):
    """A cluster that is not a preset."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    document: Annotated[ClusterProfile, BeforeValidator(_tuples)]
    """A ClusterProfile document."""


class PlanRequest(BaseModel):
    """Everything a plan depends on; equal requests give equal plans.

    None means "as the preset or the default says": bfloat16, flash, the preset's sequence length.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        json_schema_extra={"anyOf": [_given("cluster", "string", "object"), _given("accelerator", "string")]},
    )

    model: Annotated[
        Annotated[str, Field(min_length=1, max_length=500)] | InlineModel, BeforeValidator(_named_or_inline)
    ]
    """A preset's name, {"config": {...}} or {"profile": id}; never a path."""
    cluster: (
        Annotated[
            Annotated[str, Field(min_length=1, max_length=200)] | InlineCluster,
            BeforeValidator(_named_or_inline),
        ]
        | None
    ) = None
    """A preset's name or {"document": {...}}; "generic" when only an accelerator is named."""
    accelerator: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Data sheet to use instead of the cluster's own accelerator."""
    devices: Annotated[int, Field(ge=1, le=MAX_DEVICES)]
    """Accelerators to use, P."""
    mini_batch_size: Annotated[
        int,
        Field(ge=1, le=MAX_MINI_BATCH, validation_alias=AliasChoices("mini_batch_size", "global_batch_size")),
    ]
    """Samples per optimizer step, B̂ (global batch size)."""
    sequence_length: Annotated[int, Field(ge=1, le=MAX_SEQUENCE)] | None = None
    """Tokens per sample; required with a config.json."""
    precision: Precision | None = None
    """float32, or mixed bfloat16 or float16 with float32 master weights."""
    gradient_precision: Literal["float32", "same"] = "float32"
    """Precision in which gradients are kept and reduced."""
    optimizer: Optimizer = "adam"
    optimizer_sharding: Literal["none", "replicas"] = "none"
    """`replicas` divides optimizer state over a stage's replicas (ZeRO-1, distributed optimizer)."""
    attention: Attention | None = None
    recompute: Literal["auto", "none", "stage", "layer"] = "auto"
    """`auto` recomputes only where nothing fits without."""
    margin: Annotated[float, Field(ge=0, lt=1)] = 0.05
    """Share of the memory that is kept free."""
    device_memory_bytes: Annotated[int, Field(ge=1, le=MAX_MEMORY)] | None = None
    """Assume that each device has this memory, whatever its data sheet says."""
    link_bandwidth_factor: Annotated[float, Field(ge=0.001, le=1_000)] = 1.0
    """Assume all links, inside nodes and between them, so many times as fast."""
    schedules: Annotated[tuple[str, ...] | None, BeforeValidator(_names), AfterValidator(
        lambda names: None if names is None else _known_schedules(names)
    )] = None  # fmt: skip
    """Schedules to consider; by default the synchronous ones."""
    runs_on: Target = "any"
    """Reject what this framework cannot run."""
    partition: Partition | None = None
    """`balanced` cuts the layers by time; `even` gives every stage as many blocks, as the paper did.

    By default `balanced`; `even` for the presets of the paper, so that its experiments come out as published.
    """
    width: Annotated[
        int | None,
        Field(ge=1, le=MAX_DEVICES, validation_alias=AliasChoices("width", "data_parallel_size")),
    ] = None
    """Pin the data-parallel width W."""
    depth: Annotated[
        int | None,
        Field(ge=1, le=MAX_DEVICES, validation_alias=AliasChoices("depth", "pipeline_parallel_size")),
    ] = None
    """Pin the pipeline depth D."""
    micro_batch_size: Annotated[int, Field(ge=1, le=MAX_MINI_BATCH)] | None = None
    """Pin the micro-batch size B."""
    search: Literal["greedy", "exhaustive"] = "greedy"
    """`greedy` takes the largest power-of-two B that fits; `exhaustive` tries every B, recomputation, f."""
    top: Annotated[int, Field(ge=1, le=100_000)] = 20
    """How many ranked candidates the plan lists."""
    why: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Constraints such as "depth=16,schedule=dapple": the plan says what the best candidate there loses."""
    calibration: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """The id of a calibration: predict as it was measured, with error bars."""
    tensor_parallel: Annotated[int, Field(ge=1, le=MAX_DEVICES)] = 1
    context_parallel: Annotated[int, Field(ge=1, le=MAX_DEVICES)] = 1
    expert_parallel: Annotated[int, Field(ge=1, le=MAX_DEVICES)] = 1
    offload: Annotated[str, Field(max_length=50)] = "none"
    rank_order: Literal["pipe_major", "data_major"] = "pipe_major"
    """Which neighbours share a node: the ranks of one pipeline (pipe_major) or the replicas of one stage."""
    compression: Annotated[str, Field(max_length=200)] = "none"
    """Compressions of gradients that may be chosen beside none, as in "topk:0.01,qsgd"; "any" allows all."""

    @model_validator(mode="before")
    @classmethod
    def _named_once(cls, value: Any) -> Any:
        for field in cls.model_fields.values() if isinstance(value, dict) else ():
            alias = field.validation_alias
            names = alias.choices if isinstance(alias, AliasChoices) else []
            given = {str(name): reprlib.repr(value[name]) for name in names if name in value}
            if len(given) > 1:
                numbers = " and ".join(given.values())
                raise ValueError(
                    f"{' and '.join(given)} are two names of one option, here {numbers}: leave one out"
                )
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.cluster is None and self.accelerator is None:
            raise ValueError("name a cluster or an accelerator")
        if self.width and self.depth and self.width * self.depth > self.devices:
            raise ValueError(
                f"width {self.width} x depth {self.depth} needs {self.width * self.depth:,} devices, "
                f"but devices is {self.devices:,}"
            )
        return self


_NOT_MODELLED = {
    "tensor_parallel": 1,
    "context_parallel": 1,
    "expert_parallel": 1,
    "offload": "none",
}


def read_request(value: Any) -> PlanRequest:
    """Check a parsed request.

    Raises RequestError naming the fields, and UnsupportedOptionError for what is not modelled.
    """
    if not isinstance(value, dict):
        raise RequestError('the request must be a JSON object such as {"model": "bert-48", ...}')
    try:
        request = PlanRequest.model_validate(value)
    except ValidationError as error:
        raise RequestError(describe_faults(error, "the request", value=value)) from None
    for option, default in _NOT_MODELLED.items():
        if getattr(request, option) != default:
            raise UnsupportedOptionError(
                f"{option}={getattr(request, option)} is not modelled yet: only {option}={default} is"
            )
    read_compressions(request.compression)
    return request
