"""How is a report one file? Its scripts and its style stand in it, and a policy names them by their digests.

Nothing else runs in the file: what a request brought along stays text even if escaping failed.
"""

import base64
import hashlib
from functools import cache

from api.web.assets import asset

SCRIPTS = (
    "report.js",
    "save.js",
    "rejected.js",
    "timeline_picture.js",
    "timeline_memory.js",
    "timeline_words.js",
    "timeline.js",
    "timeline_lanes.js",
    "plotly.js",
    "charts.js",
)
"""Those of a report, in this order: Plotly's takes long, and what readers do first does not wait for it."""
STYLE = "style.css"


@cache
def policy() -> str:
    """The Content-Security-Policy of a report in one file."""
    return "; ".join(
        [
            "default-src 'none'",
            "img-src data: blob:",
            f"script-src {' '.join(_digest(name) for name in SCRIPTS)}",
            f"style-src {_digest(STYLE)}",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _digest(name: str) -> str:
    digest = hashlib.sha256(asset(name).text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
