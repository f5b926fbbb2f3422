"""What do hostile clients send? Sound bodies for every address that takes one, and what is put into them."""

import copy
from collections.abc import Iterator
from typing import Any

from profiles import library
from tests.api.conftest import TINY
from tests.api.test_checks import CHECK
from tests.api.test_documents import documents
from tests.api.work.factories import TRIAL, claim_of
from tests.tuner.measured import make_measurement

Place = tuple[str | int, ...]
NOBODY = "0" * 26

QUESTION = TINY | {
    "accelerator": "cpu", "sequence_length": 64, "precision": "float32", "gradient_precision": "same",
    "optimizer": "sgd", "optimizer_sharding": "none", "attention": "flash", "recompute": "none",
    "margin": 0.05,
    "schedules": ["chimera", "dapple"], "runs_on": "any", "partition": "even", "width": 1, "depth": 2,
    "micro_batch_size": 1, "search": "greedy", "top": 5, "why": "depth=2", "rank_order": "pipe_major",
    "compression": "none",
}  # fmt: skip
PROFILING = {
    "sequence_length": 64, "precision": "float32", "attention": "eager", "accelerator": "cpu",
    "optimizer": "adam", "micro_batch_sizes": [1, 2],
    "processes": 2, "pool": "default", "measure_again": False, "priority": 0,
    "max_attempts": 3,
}  # fmt: skip

VALUES: tuple[Any, ...] = (
    *(0, -1, -0.0, 0.5, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 10**18, 10**30, 10**400 - 1),
    *(5e-324, 1e-308, 1e17, 1e308, -1e308, True, None, [], {}, [[]], {"a": {}}),
    *("", " ", "x" * 300, "1", "NaN", "../../etc/passwd", "..%2f..", "a:b", "a.b:c", "/etc/passwd", "~"),
    *("\u202egnp.exe\u2066", "\ufeff", "\n", "\x1b[31m", "<script>", "é" * 200, "' OR 1=1 --", "{{7*7}}"),
)
"""Each of which may stand in the place of any value."""

TEXTS: dict[str, bytes] = {
    "nothing": b"",
    "spaces": b" \n\t ",
    "cut off": b'{"model": "bert-48"',
    "more after it": b"{} {}",
    "a comment": b"{} // yes",
    "single quotes": b"{'model': 1}",
    "NaN": b'{"devices": NaN}',
    "infinity": b'{"margin": -Infinity}',
    "beyond float": b'{"margin": 1e999}',
    "5,000 digits": b'{"devices": ' + b"9" * 5_000 + b"}",
    "a key twice": b'{"model": "bert-48", "model": "tiny-gpt"}',
    "a key twice, deep": b'{"model": {"config": {"a": [{"b": 1, "b": 2}]}}}',
    "a lone surrogate": b'{"name": "\\udc80"}',
    "a lone surrogate in a key": b'{"\\ud800": 1}',
    "NUL": b'{"name": "a\\u0000b"}',
    "a raw NUL": b'{"name": "a\x00b"}',
    "a raw newline": b'{"name": "a\nb"}',
    "UTF-16": '{"model": "bert-48"}'.encode("utf-16"),
    "UTF-32": '{"model": "bert-48"}'.encode("utf-32"),
    "Latin-1": '{"name": "é"}'.encode("latin-1"),
    "overlong UTF-8": b'{"name": "\xc0\xae"}',
    "a surrogate in UTF-8": b'{"name": "\xed\xa0\x80"}',
    "100,000 lists": b"[" * 100_000 + b"]" * 100_000,
    "100,000 objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "65 levels": b'{"model": {"config": ' + b"[" * 63 + b"]" * 63 + b"}}",
    "not closed": b"[" * 300_000,
    "a million brackets": b"[" + b"[]," * 1_000_000 + b"0]",
    "300,000 keys": b"{" + b",".join(b'"%d":1' % number for number in range(300_000)) + b"}",
    "pickle": b"\x80\x04\x95\x0b\x00\x00\x00",
    "gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00",
    "XML": b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY y SYSTEM "file:///etc/passwd">]><x>&y;</x>',
}
"""Bodies that are no JSON, or JSON that is not read: 400."""

LARGE: dict[str, bytes] = {
    "a list of a million": b"[" + b"0," * 1_000_000 + b"0]",
    "a string of 3.9 MB": b'"' + b"x" * 3_900_000 + b'"',
    "a key of 1 MB": b'{"' + b"k" * 1_000_000 + b'": 1}',
    "a million in a list of a name": b'{"model": [' + b"0," * 1_000_000 + b"0]}",
    "a name of 3.9 MB": b'{"model": "' + b"x" * 3_900_000 + b'", "name": "x"}',
    "quotes that are escaped": b'{"model": "' + b'\\"' * 1_900_000 + b'"}',
    "40,000 keys": b"{" + b",".join(b'"%d":1' % number for number in range(40_000)) + b"}",
    "faults in many measurements": b'{"source": "x", "measurements": [' + b'{"a":1},' * 99_999 + b"0]}",
    "faults in many points": b'{"timings": {"types": [' + b'{"points": [' + b"{}," * 300_000 + b"0]}]}}",
}
"""JSON that is read, and is no request or document: 422."""


def bodies() -> dict[str, dict[str, Any]]:
    """A sound body for every address that takes one, with most of its options."""
    sound = documents()
    return {
        "/v1/plans": QUESTION,
        "/v1/validations": QUESTION,
        "/v1/studies": QUESTION | {"name": "n", "refine": {"trials": 3}},
        "/v1/crossovers": {"studies": [NOBODY, NOBODY]},
        "/v1/profile-jobs": PROFILING | {"model": {"config": library.load_model_preset("tiny-gpt").config}},
        "/v1/profiles": sound["profiles"],
        "/v1/clusters": sound["clusters"],
        "/v1/measurements": {
            "source": "a test",
            "measurements": [make_measurement().model_dump(mode="json", exclude_none=True)],
        },
        "/v1/calibrations": _calibration(),
        "/v1/calibrations/fit": {"measurements": ["0" * 64], "profiles": ["0" * 64]},
        "/v1/checks": CHECK,
        "/v1/keys": {"name": "n", "scopes": ["read"], "owner": "o"},
        "/v1/jobs/claim": claim_of().model_dump(mode="json") | {"wait_s": 0},
        f"/v1/jobs/{NOBODY}/heartbeat": {"protocol": 1, "token": "0" * 32, "progress": {"doing": "x"}},
        f"/v1/jobs/{NOBODY}/finish": {
            "protocol": 1,
            "token": "0" * 32,
            "outcome": {"status": "done", "result": TRIAL},
            "attachments": [],
        },
    }


def _calibration() -> dict[str, Any]:
    shipped = library.load_measurements(library.names("measurements")[0]).fingerprint()
    learnt = {
        "cluster": "piz-daint",
        "synchronous": True,
        "measurements": 3,
        "coefficients": [{"name": "compute_factor", "value": 1.1, "standard_error": 0.1, "fitted": True}],
        "covariance": [[0.01]],
        "scatter": 0.1,
        "reach": 2.0,
        "mean_error": 0.05,
    }
    return {"fitted_on": [shipped], "level": 0.9, "sets": [learnt], "skipped": []}


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Where something stands in a JSON value; of lists, in the first two entries."""
    entries = value.items() if isinstance(value, dict) else ()
    entries = enumerate(value[:2]) if isinstance(value, list) else entries
    for key, entry in entries:
        yield (*place, key)
        yield from places(entry, (*place, key))


def put(value: Any, place: Place, new: Any) -> Any:
    """A copy with something else in one place."""
    changed = copy.deepcopy(value)
    inside = changed
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = new
    return changed
