"""What can a program or a notebook ask? Documents go in and come out; names are those of the command line.

Documents are given as objects or as parsed JSON, and are checked alike. Errors are TunerErrors and
DocumentErrors, whose messages say what is wrong and what to do.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import index
from typing import Any, TypeVar

from profiles import library
from profiles.calibration import Calibration
from profiles.cluster import ClusterProfile
from profiles.document import Document
from profiles.measurement import Measurements
from profiles.timings import Profile
from tuner.calibration import calibrate as fit
from tuner.errors import RequestError
from tuner.exports import export as write
from tuner.plan import Plan
from tuner.planning import answer
from tuner.request import PlanRequest, read_request
from tuner.score import Score
from tuner.score import score as compare
from tuner.simulated import Simulation
from tuner.simulated import simulate as run
from tuner.simulation_request import read_simulation

Json = Mapping[str, Any]
AnyDocument = TypeVar("AnyDocument", bound=Document)


def plan(model: str | Json | Profile | PlanRequest, **options: Any) -> Plan:
    """Choose width, depth, micro-batch size and schedule, as `chimera plan` does.

    `model` is a preset's name, a parsed config.json of Hugging Face or a profile; or a whole request. The
    options are those of the command line with _ for -; `cluster` takes a preset's name or a cluster document,
    `calibration` a calibration.
    """
    if isinstance(model, PlanRequest):
        return answer(_alone(model, options), library)
    if isinstance(model, Mapping) and "model" in model and "devices" in model:
        others = {key: value for key, value in model.items() if key != "model"}
        return plan(model["model"], **others, **options)
    profile = _profile(model)
    used = _document(options.pop("calibration", None), Calibration)
    asked = {name: _plain(value) for name, value in options.items()} | {
        "model": _model(model, profile),
        "cluster": _cluster(options.get("cluster")),
        "calibration": used and used.fingerprint(),
    }
    return answer(read_request(asked), library, profile=profile, calibration=used)


def simulate(schedule: str, **options: Any) -> Simulation:
    """Simulate one schedule on equal stages, with the options of `chimera simulate`."""
    return run(
        read_simulation({"schedule": schedule} | {name: _plain(value) for name, value in options.items()})
    )


def score(
    measurements: str | Json | Measurements,
    /,
    *,
    calibration: Json | Calibration | None = None,
    schedules: Sequence[str] | None = None,
    profiles: Iterable[Json | Profile] = (),
) -> Score:
    """Predict every measurement of a document, or of a shipped one by name, and compare."""
    return compare(
        _measurements(measurements),
        library,
        calibration=_document(calibration, Calibration),
        schedules=schedules,
        profiles=[_document(each, Profile) for each in profiles],
    )


def calibrate(
    *measurements: str | Json | Measurements, profiles: Iterable[Json | Profile] = ()
) -> Calibration:
    """Fit what a cluster's software costs beyond its data sheets, for `plan` and `score`."""
    documents = [_measurements(each) for each in measurements]
    return fit(documents, library, profiles=[_document(each, Profile) for each in profiles])


def export(chosen: Plan, format: str, /) -> str:
    """The choice of a plan as launch flags; `tuner.exports.FORMATS` are the formats."""
    return write(chosen, format)[0]


def _alone(request: PlanRequest, options: Json) -> PlanRequest:
    if options:
        raise RequestError(f"a whole request takes no further options: {', '.join(options)}")
    return request


def _plain(value: Any) -> Any:
    """Whole numbers of numpy and torch as Python's own."""
    return index(value) if hasattr(value, "__index__") and not isinstance(value, bool) else value


def _profile(model: Any) -> Profile | None:
    """The profile that the model is, if it is one."""
    looks = isinstance(model, Mapping) and {"description", "timings"} <= model.keys()
    return _document(model, Profile) if looks or isinstance(model, Profile) else None


def _model(model: Any, profile: Profile | None) -> Any:
    if profile is not None:
        return {"profile": profile.fingerprint()}
    if hasattr(model, "__fspath__") or (isinstance(model, str) and model.endswith(".json")):
        raise RequestError(
            f"{str(model)[:100]!r} is a path, and no files are read here: pass what is in it, "
            f"json.loads(Path({str(model)[:100]!r}).read_text())"
        )
    inline = isinstance(model, Mapping) and not model.keys() & {"config", "profile"}
    return {"config": dict(model)} if inline else model


def _cluster(cluster: Any) -> Any:
    if isinstance(cluster, ClusterProfile) or (isinstance(cluster, Mapping) and "document" not in cluster):
        return {"document": _document(cluster, ClusterProfile)}
    return cluster


def _measurements(given: str | Json | Measurements) -> Measurements:
    return library.load_measurements(given) if isinstance(given, str) else _document(given, Measurements)


def _document(given: Any, kind: type[AnyDocument]) -> Any:
    """The document itself, or parsed JSON checked as one; None stays None."""
    return given if given is None or isinstance(given, kind) else kind.from_value(given)
