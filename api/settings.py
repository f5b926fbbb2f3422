"""How is the service set up? By CHIMERA_* variables, each listed in docs/settings.md."""

import os
from collections.abc import Mapping
from ipaddress import ip_network
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from platformdirs import user_data_path
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from api.errors import SettingsError

PREFIX = "CHIMERA_"
_MOST_PROCESSES = 4
"""By default: each holds 100 MB."""
_ESCAPED = "write %40, %3A and %2F for @, : and / in a password, or leave it out and set PGPASSWORD"


def default_database_url() -> str:
    """An SQLite file in the user's data folder."""
    return f"sqlite:///{user_data_path('chimera-tuner', appauthor=False) / 'chimera.db'}"


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Settings(BaseModel):
    """The settings of one service process."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True
    )

    database_url: str = Field(default_factory=default_database_url)
    """Where studies are kept: `sqlite:///FILE`, or `postgresql://USER@HOST/NAME` (password: PGPASSWORD)."""
    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address to listen on. Without API keys only a loopback address is accepted."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8000
    """Port to listen on; 0 takes a free one."""
    public_url: str | None = None
    """The address in people's browsers when it is not the one listened on; requests may carry its host."""
    root_path: Annotated[str, Field(pattern=r"^(/[A-Za-z0-9._~-]+)*$")] = ""
    """Path under which a proxy shows the service, such as `/tuner`."""
    trusted_proxies: str | None = None
    """Proxies, addresses or networks with commas, whose X-Forwarded-For and -Proto are believed."""
    max_body_bytes: Annotated[int, Field(ge=1_000, le=8_000_000)] = 4_000_000
    """Largest request body; a longer one is answered with 413."""
    idempotency_hours: Annotated[float, Field(gt=0, le=8_760)] = 24
    """How long an Idempotency-Key is remembered."""
    database_pool_size: Annotated[int, Field(ge=1, le=500)] = 20
    """Connections to Postgres that stay open in each process."""
    require_keys: bool | None = None
    """Whether every request needs an API key; by default as soon as a key for more than work was made."""
    bootstrap_key_file: str | None = None
    """File with the first admin key: it is made there (mode 0600) when missing; requests then need keys."""
    session_hours: Annotated[float, Field(gt=0, le=8_760)] = 168
    """How long a browser stays signed in after its key was shown at /login."""
    rate_per_minute: Annotated[float, Field(gt=0, le=1_000_000)] = 600
    """Expensive calls of one kind that a key may make in the long run; more are answered with 429."""
    rate_burst: Annotated[int, Field(ge=1, le=1_000_000)] = 120
    """As many of them may come at once before the rate counts."""
    work_at_once: Annotated[int, Field(ge=1, le=32)] | None = None
    """Expensive calls worked on at once; others wait. By default as many as processors, at most 4."""
    work_in: Literal["processes", "threads"] = "processes"
    """Where they compute: in processes of their own, or in threads (by default one) that hold up reading."""
    work_waiting: Annotated[int, Field(ge=0, le=10_000)] = 200
    """Expensive calls that may wait for their turn; more are answered with 503 at once."""
    request_seconds: Annotated[float, Field(ge=0.1, le=3_600)] = 60
    """How long answering may take, beside the waiting that was asked for; then 504, and nothing is kept."""
    audit_days: Annotated[float, Field(gt=0, le=36_500)] = 365
    """How long the log of who changed what is kept."""
    lease_seconds: Annotated[float, Field(ge=1, le=3_600)] = 30
    """How long a worker may be silent before its job is given to another; it is heard six times as often."""
    retention_days: Annotated[float, Field(gt=0, le=36_500)] = 90
    """How long logs and traces of jobs are kept; profiles, measurements and results stay."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """How much is logged to stderr."""
    log_format: Literal["auto", "json", "text"] = "auto"
    """How a line of the log looks; `auto` is text where stderr is a terminal, one JSON object elsewhere."""
    shutdown_seconds: Annotated[float, Field(ge=0, le=3_600)] = 20
    """How long requests in flight may take to end when the service is told to stop."""

    @property
    def keys_are_required(self) -> bool:
        """Whether a request without a key is refused whatever keys there are."""
        return self.bootstrap_key_file is not None if self.require_keys is None else self.require_keys

    @property
    def calls_at_once(self) -> int:
        """How many expensive calls are worked on at once."""
        if self.work_at_once is not None:
            return self.work_at_once
        return min(processors(), _MOST_PROCESSES) if self.work_in == "processes" else 1

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, /, **overrides: Any) -> Self:
        """Read CHIMERA_* variables; `overrides` that are not None win. Raises SettingsError."""
        found = os.environ if environment is None else environment
        # Files of variables that were written on Windows leave a carriage return at the end of each.
        values: dict[str, Any] = {
            name: value
            for name in cls.model_fields
            if (value := found.get(PREFIX + name.upper(), "").strip())
        }
        values |= {name: value for name, value in overrides.items() if value is not None}
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            faults = (f"{PREFIX}{str(fault['loc'][0]).upper()}: {fault['msg']}" for fault in error.errors())
            raise SettingsError("; ".join(faults)) from None

    @field_validator("database_url")
    @classmethod
    def _known_database(cls, value: str) -> str:
        try:
            url = make_url(value)
        except (ArgumentError, ValueError):
            raise ValueError(
                f"not a database address such as sqlite:////data/chimera.db; {_ESCAPED}"
            ) from None
        if "@" in (url.host or ""):
            raise ValueError(f"its host holds an @; {_ESCAPED}")
        if url.get_backend_name() not in {"sqlite", "postgresql", "postgres"}:
            raise ValueError("only sqlite:///FILE and postgresql://USER@HOST/NAME are supported")
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, value: str | None) -> str | None:
        for part in (value or "").split(","):
            if value is not None:
                try:
                    ip_network(part.strip())
                except ValueError as error:
                    raise ValueError(f"name addresses or networks such as 10.0.0.0/8: {error}") from None
        return value

    @field_validator("public_url")
    @classmethod
    def _web_address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("must be an address such as https://tuner.example.org")
        return value.rstrip("/")
