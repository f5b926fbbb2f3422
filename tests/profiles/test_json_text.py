"""Is JSON from strangers read safely, and is ours always written alike?"""

import json
import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiles.errors import MalformedDocumentError
from profiles.json_text import MAX_DOCUMENT_BYTES, canonical_json, is_nested_deeper, parse_json

texts = st.text() | st.text(alphabet='[]{}"\\,x', max_size=20)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=30,
)


@given(value=values)
@settings(deadline=None)
def test_what_is_written_is_read_back(value: Any) -> None:
    """Parsing the canonical text gives the value again."""
    assert parse_json(canonical_json(value), name="it") == value


@given(pairs=st.lists(st.tuples(texts, values), unique_by=lambda pair: pair[0]), seed=st.integers())
@settings(deadline=None)
def test_the_order_of_keys_leaves_the_canonical_text_alone(pairs: list[tuple[str, Any]], seed: int) -> None:
    """Equal objects have equal bytes, in whatever order their keys were set."""
    shuffled = random.Random(seed).sample(pairs, len(pairs))
    assert canonical_json(dict(pairs)) == canonical_json(dict(shuffled))


@given(value=values, extra=st.integers(0, 200), indent=st.none() | st.just(1))
@settings(deadline=None)
def test_nesting_is_judged_as_the_brackets_outside_strings_are(
    value: Any, extra: int, indent: int | None
) -> None:
    """The bound holds exactly at the depth of the value, whatever its strings hold."""
    value = [value]
    for _ in range(extra):
        value = [value]
    raw = json.dumps(value, ensure_ascii=False, indent=indent).encode()
    assert not is_nested_deeper(raw, than=_depth(value))
    assert is_nested_deeper(raw, than=_depth(value) - 1)


def _depth(value: Any) -> int:
    """Levels of lists and objects, counted without recursion over long chains."""
    levels, layer = 0, [value]
    while layer := [item for item in layer if isinstance(item, list | dict)]:
        levels += 1
        layer = [child for item in layer for child in (item.values() if isinstance(item, dict) else item)]
    return levels


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "not valid JSON"),
        (b"not json", "not valid JSON"),
        (b'{"a": 1', "(char 7); it ends there: is it whole?"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON number"),
        (b'{"a": 1e999}', "1e999 is too large"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "a number has 5,000 digits"),
        (b'{"a": 1, "a": 2}', "the key 'a' appears twice"),
        (b'{"b": {"a": 1, "c": 0, "a": 1}}', "the key 'a' appears twice"),
        (b"\xff\xfe\x00", "not UTF-8 text (byte 0)"),
        ('{"a": "\udc80"}', "not UTF-8 text (byte 7)"),
        (b"[" * 10_000 + b"]" * 10_000, "nested more than 64 levels deep"),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "nested more than 64 levels deep"),
        (b"[" * 10_000, "nested more than 64 levels deep"),
        (b" " * 50_000_000, "has 50,000,000 bytes; at most 8,000,000 are read"),
    ],
    ids=range(15),
)
def test_what_cannot_be_read_is_refused_with_its_reason(text: str | bytes, reason: str) -> None:
    """The message names the document and says what is wrong with it."""
    with pytest.raises(MalformedDocumentError) as caught:
        parse_json(text, name="config.json")
    assert str(caught.value).startswith("config.json ")
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    "unit", [b"[", b"]", b"[]", b'"', b'""', b'\\"', b'"[",', b'"\\', b'{"a":[1,"x{",{}]},']
)
def test_the_largest_document_is_judged_at_once(unit: bytes) -> None:
    """Eight hostile megabytes cost well under a second; it is usually a tenth."""
    raw = (unit * (MAX_DOCUMENT_BYTES // len(unit) + 1))[:MAX_DOCUMENT_BYTES]
    began = time.process_time()
    is_nested_deeper(raw, than=64)
    assert time.process_time() - began < 1.0
