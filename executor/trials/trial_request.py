"""What is asked of a trial? One configuration, of a model or emulated; the options of `chimera run`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from executor.errors import ConfigurationError
from executor.launchers.launcher import LauncherName
from profiles.document import describe_faults
from tuner.configuration import Recompute, Scaling
from tuner.emulation import Emulation
from tuner.schedules.updates import SyncPolicy

MAX_LOCAL_RANKS = 64
"""Processes on one machine."""
MAX_RANKS = 4096
"""Processes on a cluster."""
MOST_BUCKETS = 1000

Count = Annotated[int, Field(ge=1, le=10**6)]


def _as_tuple(value: Any) -> Any:
    """JSON has lists."""
    return tuple(map(_as_tuple, value)) if isinstance(value, list | tuple) else value


Cuts = Annotated[tuple[Count, ...], BeforeValidator(_as_tuple), Field(max_length=10_000)]
TiedStages = Annotated[tuple[tuple[int, ...], ...], BeforeValidator(_as_tuple), Field(max_length=1000)]


class _Closed(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class TrialRequest(_Closed):
    """Everything a trial depends on."""

    schedule: str
    width: Count = 1
    depth: Count
    micro_batches: Count
    micro_batch_size: Count = 1
    scaling: Scaling = "direct"
    pipe_pairs: Count = 1
    chunks: Count | None = None
    """The schedule's own unless given."""
    partition: Cuts | None = None
    """Blocks of each stage; cut evenly unless given. What stands before and behind them goes to the ends."""
    recompute: Recompute = "none"
    sync_policy: SyncPolicy = "eager_opt"
    buckets: Annotated[int, Field(ge=1, le=MOST_BUCKETS)] = 1
    """Collectives of each stage's gradients, at least."""
    bucket_bytes: Annotated[int, Field(ge=1, le=2**40)] = 25 * 1024**2
    """Largest of them: `buckets` becomes as many as the largest stage needs, where its size is known."""
    optimizer: Literal["sgd", "momentum", "adam", "adamw"] = "adam"
    optimizer_sharding: Literal["none", "replicas"] = "none"
    compression: Annotated[str, Field(max_length=50)] = "none"
    """Of the gradients that replicas exchange (`tuner.compression`)."""
    model: Annotated[str, Field(min_length=1, max_length=500)] | dict[str, Any] | None = None
    """A preset's or a factory's name, or {"config": ...}; else `emulate`."""
    tied: TiedStages = ()
    """Stages that share parameters, for each tied group of the model."""
    sequence_length: Count | None = None
    emulate: Emulation | None = None
    iterations: Annotated[int, Field(ge=1, le=10_000)] = 10
    """Timed ones."""
    warm_up: Annotated[int, Field(ge=0, le=1000)] = 2
    """Iterations before the timed ones."""
    precision: Literal["float32", "bfloat16", "float16", "float64"] = "float32"
    launcher: LauncherName = "local"
    """Who starts the ranks."""
    device: Literal["cpu", "cuda"] = "cpu"
    check: bool = False
    """Compare with one process."""
    timeout_s: Annotated[float, Field(gt=0, le=86_400 * 7)] = 600.0
    memory_limit_bytes: Annotated[int, Field(ge=1)] | None = None
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = 0

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.model is None) == (self.emulate is None):
            raise ValueError("give either a model or what to emulate, not both")
        if self.check and self.emulate is not None:
            raise ValueError(
                "check compares weights, and an emulated run has none: leave it out, or run a model"
            )
        if self.compression != "none" and self.emulate is not None:
            raise ValueError(
                f"compression {self.compression} is of gradients, and an emulated run has none: leave it "
                "out, or run a model"
            )
        if self.compression != "none" and self.check:
            raise ValueError(
                f"check compares with one process, from which {self.compression} differs by design: leave "
                "one of them out"
            )
        most = MAX_LOCAL_RANKS if self.launcher == "local" else MAX_RANKS
        if self.ranks > most:
            where = "on one machine" if self.launcher == "local" else f"with {self.launcher}"
            raise ValueError(
                f"width {self.width} x depth {self.depth} are {self.ranks} processes; {most} is the most "
                f"{where}"
            )
        return self

    @property
    def ranks(self) -> int:
        """Processes, W·D."""
        return self.width * self.depth


def read_trial(value: dict[str, Any]) -> TrialRequest:
    """Check parsed options; raises ConfigurationError naming what is wrong."""
    try:
        return TrialRequest.model_validate(value)
    except ValidationError as error:
        raise ConfigurationError(describe_faults(error, "the trial", value=value)) from None
