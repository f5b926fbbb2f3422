"""Where does a calibration of the service come from? From measurements that an admin picks for it.

Anybody may store measurements, and a number that is wrong changes every plan that is calibrated with it: to
fit a calibration on them, or to store one that was fitted elsewhere, is for an admin.
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from api.computing import fits
from api.documents.store import find_document
from api.service import Service
from api.storage.database import Database
from api.storage.tables import DocumentKind
from api.web.problems import InvalidProblem
from profiles import library
from profiles.calibration import Calibration
from profiles.document import describe_faults
from profiles.measurement import Measurements
from profiles.timings import Profile

MOST_ROWS = 500
"""Measurements that a service fits on: those of a minute or two."""

_Id = Annotated[str, Field(min_length=1, max_length=200)]


class FitRequest(BaseModel):
    """On which measurements a calibration is fitted."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)

    measurements: Annotated[list[_Id], Field(min_length=1, max_length=100)]
    """Ids under /v1/measurements, or names of documents that are shipped."""
    profiles: Annotated[list[_Id], Field(max_length=100)] = []
    """Ids under /v1/profiles of measured models that are no presets."""


def fit(value: Any, service: Service) -> Calibration:
    """Fit as a parsed body asks.

    Raises InvalidProblem, TooManyProblem, or CalibrationError where nothing can be told.
    """
    database = service.database
    try:
        asked = FitRequest.model_validate(value)
    except ValidationError as error:
        raise InvalidProblem(describe_faults(error, "the request", value=value)) from None
    measured = [_measurements(name, database) for name in dict.fromkeys(asked.measurements)]
    profiles = [
        Profile.from_value(_stored(DocumentKind.PROFILE, name, database), name="the stored profile")
        for name in asked.profiles
    ]
    count = sum(len(each.measurements) for each in measured)
    if count > MOST_ROWS:
        raise InvalidProblem(
            f"{count:,} measurements are more than the {MOST_ROWS} that the service fits on: fit them "
            "elsewhere with `chimera score FILE --calibrate-on FILE --save-calibration calibration.json` "
            "and post that to /v1/calibrations"
        )
    service.charge("calibrations")
    made = service.computing.call(
        fits.fit,
        [document.model_dump_json() for document in measured],
        [document.model_dump_json() for document in profiles],
    )
    return Calibration.model_validate_json(made.content)


def check(value: Any, service: Service) -> Calibration:
    """A calibration that was fitted elsewhere; raises InvalidProblem unless its measurements are here."""
    document = Calibration.from_value(value, name="the calibration")
    shipped = {library.load_measurements(name).fingerprint() for name in library.names("measurements")}
    missing = [
        name for name in document.fitted_on if name not in shipped and not _is_there(name, service.database)
    ]
    if missing:
        raise InvalidProblem(
            f"the calibration was fitted on {len(missing)} documents that are not here, first "
            f"{missing[0][:80]!r}: post them to /v1/measurements, so that what it rests on can be read"
        )
    return document


def find_calibration(identifier: str | None, database: Database) -> Calibration | None:
    """The calibration that a request names; raises InvalidProblem where it is not there or was changed."""
    if identifier is None:
        return None
    stored = _stored(DocumentKind.CALIBRATION, identifier, database)
    found = Calibration.from_value(stored, name="the stored calibration")
    if found.fingerprint() != identifier:
        raise InvalidProblem(
            f"what is stored as the calibration {identifier[:80]!r} has other content: it was changed; store "
            "it again"
        )
    return found


def _measurements(name: str, database: Database) -> Measurements:
    if name in library.names("measurements"):
        return library.load_measurements(name)
    stored = _stored(DocumentKind.MEASUREMENTS, name, database)
    return Measurements.from_value(stored, name="the stored measurements")


def _stored(kind: DocumentKind, identifier: str, database: Database) -> Any:
    with database.reading() as session:
        stored = find_document(session, kind, identifier)
        if stored is None:
            raise InvalidProblem(
                f"there is no {identifier[:80]!r} under /v1/{kind}: post it there, and use the id it gets"
            )
        return stored.document


def _is_there(identifier: str, database: Database) -> bool:
    with database.reading() as session:
        return find_document(session, DocumentKind.MEASUREMENTS, identifier) is not None
