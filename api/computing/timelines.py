"""What does a configuration look like over time, simulated or as a trial recorded it?"""

import gzip
import json
import zlib
from base64 import b64decode, b64encode
from contextlib import suppress
from typing import Any

from api.computing.asked import Asked, read_calibrated
from api.computing.result import Result
from profiles import library
from profiles.errors import DocumentError
from tuner.configuration import Configuration
from tuner.enactment import Enacted, enact_candidate, hold
from tuner.errors import RequestError, TunerError
from tuner.plan import Candidate
from tuner.recorded_timeline import recorded_document
from tuner.timeline_document import timeline_document
from tuner.traces import trace_json

_LEVEL = 4


def timeline(asked: Asked, candidate: str) -> Result:
    """A candidate in columns, gzipped; raises TunerError where it cannot be simulated."""
    enacted = _enact(asked, candidate)
    return Result(gzipped(timeline_document(enacted.timeline, enacted.held)))


def trace(asked: Asked, candidate: str) -> Result:
    """A candidate with its messages, as Perfetto reads it; raises as `timeline` does."""
    return Result(trace_json(_enact(asked, candidate).timeline).encode())


def recorded(asked: Asked, configuration: dict[str, Any], stored: str) -> Result:
    """What a trial recorded, gzipped as a timeline; raises RequestError where its trace is none."""
    ran = Configuration(**configuration)
    document = recorded_document(_read_trace(b64decode(stored)), schedule=ran.schedule)
    with suppress(TunerError, DocumentError):
        request, profile = read_calibrated(asked)
        held = hold(request, ran, library, profile=profile)
        if len(held.always_bytes) == document["depth"] and len(held.kept_bytes) >= document["stages"]:
            document["memory"] = held.document()
    return Result(gzipped(document))


def as_stored(deflated: bytes) -> str:
    """A deflated trace as `recorded` takes it."""
    return b64encode(deflated).decode()


def gzipped(document: dict[str, Any]) -> bytes:
    """A timeline as it is kept and sent."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return gzip.compress(text.encode(), compresslevel=_LEVEL, mtime=0)


def _enact(asked: Asked, candidate: str) -> Enacted:
    request, profile = read_calibrated(asked)
    return enact_candidate(request, Candidate.model_validate_json(candidate), library, profile=profile)


def _read_trace(deflated: bytes) -> Any:
    try:
        return json.loads(zlib.decompress(deflated))
    except (ValueError, zlib.error, RecursionError) as error:
        raise RequestError(f"the trace cannot be read: {error}") from None
