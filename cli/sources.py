"""What do --model and --cluster name: a shipped document, or a file of the user's?"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cli.errors import InputError
from cli.files import read_bounded

if TYPE_CHECKING:
    from profiles.document import Document
    from profiles.timings import Profile

AnyDocument = TypeVar("AnyDocument", bound="Document")


def read_model(name: str) -> tuple[Any, Profile | None]:
    """The `model` of a request, and the profile if `name` is a profile document's path."""
    from profiles import library

    path = None if name in library.names("models") else _existing_path(name)
    if path is None:
        return name, None
    if path.is_dir():
        path = _config_inside(path)
    document = _read_object(path)
    if {"description", "timings"} <= document.keys():
        from profiles.timings import Profile

        profile = Profile.from_value(document, name=str(path))
        return {"profile": profile.fingerprint()}, profile
    _refuse_other_documents(document, path)
    return {"config": document}, None


def read_named_model(name: str) -> tuple[Any, Profile | None]:
    """As read_model; a config.json is called as its folder is, so that plans of several are told apart."""
    model, profile = read_model(name)
    if isinstance(model, dict) and "config" in model:
        path = Path(name).expanduser()
        folder = path if path.is_dir() else path.parent
        called = folder.name if path.is_dir() or path.name == "config.json" else path.stem
        model |= {"name": called[:200]} if called else {}
    return model, profile


def read_cluster(name: str) -> Any:
    """The `cluster` of a request."""
    from profiles import library
    from profiles.cluster import ClusterProfile

    path = None if name in library.names("clusters") else _existing_path(name)
    if path is None:
        return name
    return {"document": ClusterProfile.from_value(_read_object(path), name=str(path))}


def read_document(name: str, document: type[AnyDocument]) -> AnyDocument:
    """A document of the user's; raises InputError or DocumentError where it cannot be read or is wrong."""
    from profiles.document import MAX_DOCUMENT_BYTES

    return document.from_json(read_bounded(Path(name), most=MAX_DOCUMENT_BYTES), name=name[:200])


def _existing_path(name: str) -> Path | None:
    """The path that `name` means, None for what can only be a name; raises InputError for a missing path."""
    if not name:
        return None
    try:
        path = Path(name).expanduser()
        path.stat()
    except (OSError, RuntimeError, ValueError) as error:
        missing = isinstance(error, OSError) and error.errno in {errno.ENOENT, errno.ENOTDIR}
        if missing and not _looks_like_path(name):
            return None
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"cannot read {name[:200]!r}: {reason}") from None
    return path


def _looks_like_path(name: str) -> bool:
    # "owner/name" is how models are called on the Hub.
    return name.startswith((".", "/", "~")) or name.endswith((".json", "/")) or name.count("/") > 1


def _config_inside(folder: Path) -> Path:
    path = folder / "config.json"
    if not path.exists():
        raise InputError(
            f"the folder {str(folder)[:200]!r} holds no config.json; pass the file, or a folder with one"
        )
    return path


def _read_object(path: Path) -> dict[str, Any]:
    from profiles.document import MAX_DOCUMENT_BYTES, parse_json

    shown = str(path)[:200]
    document = parse_json(read_bounded(path, most=MAX_DOCUMENT_BYTES), name=shown)
    if not isinstance(document, dict):
        raise InputError(
            f"{shown} holds a JSON {type(document).__name__}, not an object; pass a model's config.json"
        )
    return document


def _refuse_other_documents(document: dict[str, Any], path: Path) -> None:
    """Name what the file is when it is one of our documents, but no profile."""
    known = {
        "a plan": {"chosen", "candidates"},
        "a model description without timings": {"layers", "hidden_size", "schema_version"},
        "layer timings without a model": {"types", "accelerator", "schema_version"},
        "a cluster": {"node", "link"},
        "a profile without its timings": {"description"},
        "a profile without its model's description": {"timings"},
    }
    for noun, keys in known.items():
        if keys <= document.keys():
            raise InputError(f"{path} is {noun}; pass a model's config.json or a profile (`chimera profile`)")


def sendable(cluster: Any) -> Any:
    """The `cluster` of a request as JSON: a name, or its document."""
    if isinstance(cluster, dict):
        return {"document": cluster["document"].model_dump(mode="json", exclude_none=True)}
    return cluster
