"""Which methods does an address take? Read from the OpenAPI document, for answers 405."""

import re
from typing import Any

_PLACEHOLDER = re.compile(r"\\\{[^/]*?\\\}")


def methods_of(path: str, document: dict[str, Any]) -> list[str]:
    """Every method that the document names for a path, none where it does not have it.

    A fixed address is no id: /v1/jobs/claim takes POST alone, though /v1/jobs/{job_id} takes GET.
    """
    paths = document["paths"]
    found = [paths[path]] if path in paths else [entry for each, entry in paths.items() if _fits(path, each)]
    return sorted({method.upper() for entry in found for method in entry})


def _fits(path: str, described: str) -> bool:
    return re.fullmatch(_PLACEHOLDER.sub("[^/]+", re.escape(described)), path) is not None
