"""How is JSON from strangers read, and how is ours written?

A document may come from anybody, so size and depth are bounded before anything is built from it.
"""

import json
from codecs import BOM_UTF8
from collections import Counter
from itertools import accumulate
from math import isinf
from typing import Any

from profiles.errors import MalformedDocumentError

MAX_DOCUMENT_BYTES = 8_000_000
MAX_NESTING = 64
MAX_CONTAINERS = 400_000
"""Lists and objects: twice as many as the largest document of ours has room for, read in half a second."""
MAX_KEYS = 50_000
"""Of one object: the labels of a config.json for pictures may be 21,843."""

_MAX_DIGITS = 400
_STEPS = bytes.maketrans(b"[]{}", b"\x01\xff\x01\xff")
"""Opening brackets as +1, closing ones as -1, read as signed bytes."""
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_RUN = 64


def canonical_json(value: Any) -> str:
    """Dump JSON with sorted keys and no spaces; refuses NaN and infinity."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def parse_json(text: str | bytes, *, name: str) -> Any:
    """Parse JSON within MAX_DOCUMENT_BYTES and MAX_NESTING, of finite numbers and keys that appear once."""
    text = without_mark(text)
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise MalformedDocumentError(
            f"{name} has {len(raw):,} bytes; at most {MAX_DOCUMENT_BYTES:,} are read. Is this the right file?"
        )
    if is_nested_deeper(raw, than=MAX_NESTING):
        raise MalformedDocumentError(f"{name} is nested more than {MAX_NESTING} levels deep")
    if (containers := raw.count(b"[") + raw.count(b"{")) > MAX_CONTAINERS:
        raise MalformedDocumentError(
            f"{name} has {containers:,} opening brackets; at most {MAX_CONTAINERS:,} are read"
        )
    try:
        return json.loads(
            raw.decode("utf-8"),
            parse_int=_short,
            parse_float=_finite,
            parse_constant=_refuse_constant,
            object_pairs_hook=_unique,
        )
    except UnicodeDecodeError as error:
        raise MalformedDocumentError(
            f"{name} is not UTF-8 text (byte {error.start}): is it the right file, and saved as UTF-8?"
        ) from None
    except json.JSONDecodeError as error:
        ends = error.msg.startswith("Unterminated") or not error.doc[error.pos :].strip()
        cut = "; it ends there: is it whole?" if ends else ""
        raise MalformedDocumentError(f"{name} is not valid JSON: {error}{cut}") from None
    except (ValueError, RecursionError) as error:
        raise MalformedDocumentError(f"{name} is not valid JSON: {error}") from None


def without_mark(text: str | bytes) -> str | bytes:
    """The text without the byte order mark that some editors put before UTF-8."""
    return text.removeprefix("\ufeff") if isinstance(text, str) else text.removeprefix(BOM_UTF8)


def is_nested_deeper(raw: bytes, *, than: int) -> bool:
    """Whether brackets outside strings nest more than `than` levels, for any text that is valid JSON.

    What stands between quotes is dropped once the escapes are gone. The brackets left are summed in short
    runs, of which only those that open enough to matter are looked at one by one.
    """
    without_escapes = raw.replace(rb"\\", b"").replace(rb"\"", b"")
    outside_strings = b"".join(without_escapes.split(b'"')[::2])
    steps = outside_strings.translate(_STEPS, _NO_BRACKETS)
    depth = 0
    for start in range(0, len(steps), _RUN):
        run = steps[start : start + _RUN]
        opened = run.count(1)
        if depth + opened > than and depth + max(accumulate(memoryview(run).cast("b"))) > than:
            return True
        depth += 2 * opened - len(run)
    return False


def _short(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number has {len(digits):,} digits")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if isinf(number):
        raise ValueError(f"{digits[:40]} is too large for a number")
    return number


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_KEYS:
        raise ValueError(f"an object has {len(pairs):,} keys, and at most {MAX_KEYS:,} are read")
    seen = dict(pairs)
    if len(seen) < len(pairs):
        (twice, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice[:80]!r} appears twice")
    return seen
