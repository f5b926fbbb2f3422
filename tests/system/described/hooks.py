"""What does schemathesis leave alone? Its own key, and the time that requests may ask the service to wait.

Loaded by schemathesis, in a process of its own.
"""

import os
from typing import Any

import schemathesis

OWN_KEY = "OWN_KEY_ID"
"""Names the variable with the id of the key that every request carries."""
_LONGEST_WAIT_S = 0.05
_SLOW_FIT = ["chimera-sc21"]
_fitted = False


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: dict[str, Any]) -> None:
    """Change what would end the run or make it wait for minutes; everything else is sent as it was drawn."""
    if (case.path_parameters or {}).get("key_id") == os.environ[OWN_KEY]:
        case.path_parameters["key_id"] = "0" * 26
    for part, name in ((case.query, "wait"), (case.body, "wait_s")):
        if isinstance(part, dict) and isinstance(part.get(name), int | float) and part[name] <= 30:
            part[name] = min(part[name], _LONGEST_WAIT_S)
    if isinstance(case.body, dict) and case.body.get("measurements") == _SLOW_FIT:
        _fit_once(case.body)


def _fit_once(body: dict[str, Any]) -> None:
    """A fit on everything that was published takes seconds: the first is made, the others name nothing."""
    global _fitted  # noqa: PLW0603
    if _fitted:
        body["measurements"] = ["0" * 64]
    _fitted = True
