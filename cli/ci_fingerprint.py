"""What does the profile of a model depend on? While that is the same, nothing is timed again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.errors import InputError, UnavailableError

if TYPE_CHECKING:
    from profiles.timings import Profile
    from tuner.regressions.manifest import CheckedModel

_MOST_SOURCES = 5_000
_MOST_SOURCE_BYTES = 64 * 1024**2
_TIMED_BY = {"model", "on", "accelerator", "sequence_length", "precision", "attention"}
_TIMED_BY |= {"micro_batch_sizes", "threads"}


def fingerprint(model: CheckedModel, source: Any, *, given: Profile | None) -> str:
    """Of all that a profile depends on, known before it is taken."""
    from importlib.metadata import version

    from profiles.document import canonical_json
    from tuner.regressions.records import fingerprint_of

    asked = model.model_dump(mode="json", include=_TIMED_BY)
    content = None if given is None else given.fingerprint()
    config = canonical_json(source) if isinstance(source, dict) else source
    parts: dict[str, Any] = {"asked": asked, "content": content, "config": config}
    parts["software"] = {"chimera-tuner": version("chimera-tuner")}
    if model.is_factory:
        parts["sources"] = _sources(model)
    if model.on != "estimate" and content is None:
        parts["machine"] = _machine(model)
    return fingerprint_of(parts)


@contextmanager
def not_measurable() -> Iterator[None]:
    """What is printed meanwhile goes to stderr; what is raised becomes an UnavailableError."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except UnavailableError:
        raise
    except (Exception, SystemExit) as error:
        told = str(error).strip() or type(error).__name__
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        raise UnavailableError(f"{kind}{told[:1000]}") from error


def _machine(model: CheckedModel) -> dict[str, Any]:
    """Device, driver and versions; raises UnavailableError where there is no torch or no such device."""
    with not_measurable():
        try:
            from executor.measuring.environment import describe_host, has_cuda
        except ImportError as error:
            raise UnavailableError(
                f"measuring needs the executor: {error}. Install chimera-tuner[executor], "
                "or use on = 'estimate'"
            ) from None
        if model.on == "cuda" and not has_cuda():
            raise UnavailableError(
                "torch sees no CUDA device here: use a runner with one, or on = 'estimate'"
            )
        environment = describe_host(model.on, threads=model.threads)
        return environment.model_dump(mode="json", exclude={"clocks_hz", "memory_bytes"})
    raise AssertionError("unreachable")  # pragma: no cover


def _sources(model: CheckedModel) -> dict[str, str]:
    """SHA-256 of the files that a factory depends on, by their path."""
    import hashlib

    where = model.model.rpartition(":")[0]
    beside = Path(where).parent if where.endswith(".py") else Path(where.partition(".")[0])
    folder = beside if beside.is_dir() else Path()
    patterns = model.sources or (f"{folder}/**/*.py",)
    found: dict[str, str] = {}
    total = 0
    for pattern in patterns:
        for path in _matching(model.name, pattern):
            if any(part.startswith((".", "__pycache__")) for part in path.parts if part != ".."):
                continue
            total += path.stat().st_size
            if len(found) >= _MOST_SOURCES or total > _MOST_SOURCE_BYTES:
                raise InputError(
                    f"{model.name}: {pattern!r} matches more than {_MOST_SOURCES:,} files or "
                    f"{_MOST_SOURCE_BYTES:,} bytes: name with `sources` what the factory depends on"
                )
            found[path.as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    if not found:
        raise UnavailableError(
            f"no file matches {', '.join(patterns)}: the factory {model.model} is not here"
        )
    return found


def _matching(name: str, pattern: str) -> list[Path]:
    try:
        return sorted(path for path in Path().glob(pattern) if path.is_file())
    except (ValueError, NotImplementedError) as error:
        raise InputError(
            f"{name}: sources {pattern[:100]!r}: {error}; write patterns such as 'src/**/*.py'"
        ) from None
