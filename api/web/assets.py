"""Which scripts and styles do pages use? Files of the package and Plotly's script, at lasting addresses.

An address holds the digest of the content, so browsers may keep it for ever.
"""

import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files

from plotly.offline import get_plotlyjs

_MEDIA_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
NAMES = (
    "style.css",
    "calls.js",
    "charts.js",
    "report.js",
    "timeline_picture.js",
    "timeline_memory.js",
    "timeline_lanes.js",
    "what_if.js",
    "save.js",
    "rejected.js",
    "timeline_words.js",
    "timeline.js",
    "form_request.js",
    "form_check.js",
    "form.js",
    "studies.js",
    "workers.js",
    "live.js",
    "icon.svg",
    "plotly.js",
)


@dataclass(frozen=True)
class Asset:
    """A file that pages load."""

    name: str
    text: str

    @cached_property
    def digest(self) -> str:
        """Names the content."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @cached_property
    def compressed(self) -> bytes:
        """The content for a client that accepts gzip, without a time stamp: equal content is equal."""
        return gzip.compress(self.text.encode(), compresslevel=9, mtime=0)

    @property
    def media_type(self) -> str:
        """What it is served as."""
        return _MEDIA_TYPES[self.name.rpartition(".")[2]]

    def address(self, base: str) -> str:
        """Where pages under `base` find it."""
        return f"{base}/assets/{self.digest}/{self.name}"


@cache
def plotly_style_ids() -> tuple[str, ...]:
    """Ids of the elements that Plotly's map library looks for before it inserts a style of its own.

    The policy forbids that style and no chart needs it: an element of that id keeps Plotly from trying.
    """
    return tuple(dict.fromkeys(re.findall(r'getElementById\("([0-9a-f]{64})"\)', asset("plotly.js").text)))


@cache
def asset(name: str) -> Asset:
    """The asset of that name; raises KeyError for one that is not in NAMES."""
    if name not in NAMES:
        raise KeyError(name)
    if name == "plotly.js":
        return Asset(name, get_plotlyjs())
    return Asset(name, files("api").joinpath("static", name).read_text(encoding="utf-8"))
