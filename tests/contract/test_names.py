"""Is every promised name still there, and every new one written down?"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.names import FOLDER, SCHEMAS, described, flat, operations, schema

REFRESH = "write it down: .venv/bin/python -P -m tests.contract.refresh"


def check(promised: Any, present: Any) -> None:
    """Fail naming what was removed, then what is not written down."""
    before, now = set(flat(promised)), set(flat(present))
    assert not before - now, "names are a contract: these were removed or renamed"
    assert not now - before, REFRESH


def test_the_addresses_are_those_that_were_promised(tmp_path: Path) -> None:
    """With their parameters, statuses and bodies."""
    check(json.loads((FOLDER / "operations.json").read_text()), operations(tmp_path))


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_keys_of_a_document_are_those_that_were_promised(name: str) -> None:
    """With their types and words."""
    check(json.loads((FOLDER / "schemas" / f"{name}.json").read_text()), schema(name))


def test_a_renamed_key_is_noticed() -> None:
    """The comparison itself can fail."""
    renamed = json.loads(json.dumps(schema("plan")).replace('"iteration_s"', '"iteration_seconds"'))
    with pytest.raises(AssertionError, match="removed or renamed"):
        check(schema("plan"), renamed)


def test_every_operation_may_answer_with_problems(tmp_path: Path) -> None:
    """Also the ones that any request may meet."""
    for name, operation in operations(tmp_path).items():
        assert {"403", "500", "503"} <= set(operation["statuses"]), name


def test_problems_are_described_as_what_they_are(tmp_path: Path) -> None:
    """No operation promises another shape of error."""
    document = described(tmp_path)
    assert "HTTPValidationError" not in document["components"]["schemas"]
    for methods in document["paths"].values():
        for operation in methods.values():
            for status, answer in operation["responses"].items():
                assert (int(status) >= 400) == ("application/problem+json" in answer.get("content", {}))


def test_every_reference_leads_somewhere(tmp_path: Path) -> None:
    """Generated clients follow them."""
    document = described(tmp_path)
    references = {word.rpartition("=")[2] for word in flat(document) if ".$ref=" in word}
    assert references
    for reference in references:
        assert reference.removeprefix("#/components/schemas/") in document["components"]["schemas"], reference


def test_no_two_operations_share_a_name(tmp_path: Path) -> None:
    """Generated clients call them by it."""
    names = [operation["operation"] for operation in operations(tmp_path).values()]
    assert len(set(names)) == len(names)
