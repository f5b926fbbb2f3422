"""Which documents ship with the package, and what do they hold?

Files of the package itself are the only thing read here: a name is looked up among the shipped ones, so that
"../x" is an unknown name like any other.
"""

from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Literal, TypeVar

from profiles.cluster import ClusterProfile
from profiles.device import Accelerator
from profiles.document import Document
from profiles.errors import UnknownNameError
from profiles.measurement import Measurements
from profiles.preset import ModelPreset
from profiles.timings import LayerTimings

Kind = Literal["models", "devices", "clusters", "timings", "measurements"]
AnyDocument = TypeVar("AnyDocument", bound=Document)

_TOLD = {
    "models": ("model preset", "`chimera list models`"),
    "devices": ("accelerator", "`chimera list accelerators`"),
    "clusters": ("cluster", "`chimera list clusters`"),
    "timings": ("set of layer timings", ""),
    "measurements": ("set of measurements", ""),
}
_SHOWN_CHARACTERS = 100


@cache
def names(kind: Kind) -> tuple[str, ...]:
    """Names of the shipped documents of `kind`, sorted; each is its file's name without `.json`."""
    folder = files("profiles").joinpath(kind)
    found = (entry.name for entry in folder.iterdir())
    return tuple(sorted(name.removesuffix(".json") for name in found if name.endswith(".json")))


@cache
def load_model_preset(name: str) -> ModelPreset:
    """Read a model preset; raises UnknownNameError, which tells how to pass any other model."""
    return _load(ModelPreset, "models", name)


@cache
def load_accelerator(name: str) -> Accelerator:
    """Read an accelerator's data sheet; raises UnknownNameError."""
    return _load(Accelerator, "devices", name)


@cache
def load_cluster(name: str) -> ClusterProfile:
    """Read a cluster; raises UnknownNameError."""
    return _load(ClusterProfile, "clusters", name)


@cache
def load_timings() -> tuple[LayerTimings, ...]:
    """Read all published layer timings, in the order of their names."""
    return tuple(_load(LayerTimings, "timings", name) for name in names("timings"))


@cache
def load_measurements(name: str) -> Measurements:
    """Read a set of measurements; raises UnknownNameError."""
    return _load(Measurements, "measurements", name)


def _load(document: type[AnyDocument], kind: Kind, name: str) -> AnyDocument:
    if name not in names(kind):
        raise UnknownNameError(describe_unknown(kind, name))
    raw = files("profiles").joinpath(kind, f"{name}.json").read_bytes()
    return document.from_json(raw, name=f"{kind}/{name}.json")


def describe_unknown(kind: Kind, name: str) -> str:
    """Say that there is no such document, which names come closest, and where to look or what to pass."""
    noun, command = _TOLD[kind]
    shown = repr(name[:_SHOWN_CHARACTERS]) + ("..." if len(name) > _SHOWN_CHARACTERS else "")
    close = closest(kind, name)
    told = f"no {noun} is called {shown}"
    if close:
        told += f"; the closest is {close[0]!r}" + "".join(f" or {other!r}" for other in close[1:])
    shipped = names(kind)
    told += f". {command} shows all {len(shipped)}" if command else f". There are: {', '.join(shipped)}"
    if kind == "models":
        told += ". Models are not downloaded: for any other pass its config.json with --sequence-length"
    return told


def closest(kind: Kind, name: str) -> list[str]:
    """Shipped names most like `name`, best first; an owner as in "owner/name" and the case do not count."""
    owner, _, own = name[:_SHOWN_CHARACTERS].rpartition("/")
    shipped = names(kind)
    likely = get_close_matches(own.lower(), shipped, n=2, cutoff=0.6)
    # A name of the Hub is a real model, so something near it is always worth naming.
    return likely or get_close_matches(own.lower(), shipped, n=1, cutoff=0.0 if owner else 0.4)
