"""Which texts of a plan may stand in a shell script as they are?"""

import re

from tuner.exports.errors import NotExpressibleError

_PLAIN = re.compile(r"[A-Za-z0-9_.,-]+")


def require_plain(name: str, text: str) -> str:
    """The text, which is one plain word; raises NotExpressibleError for any other."""
    if not _PLAIN.fullmatch(text):
        raise NotExpressibleError(f"{name} {text[:60]!r} is not a plain word; use the json export")
    return text
