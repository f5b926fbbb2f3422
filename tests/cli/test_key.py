"""Does `chimera key` make, list and end keys on the host of the service?"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Shell


@pytest.fixture
def address(tmp_path: Path) -> tuple[str, str]:
    """Options that name a database of the test's own."""
    return "--database-url", f"sqlite:///{tmp_path}/chimera.db"


def listed(chimera: Shell, address: tuple[str, str]) -> list[dict[str, Any]]:
    """All keys."""
    result = chimera("key", "list", "--json", *address)
    assert result.code == 0, result.err
    found: list[dict[str, Any]] = json.loads(result.out)["keys"]
    return found


def test_a_key_is_made_shown_once_listed_and_revoked(chimera: Shell, address: tuple[str, str]) -> None:
    """Scopes are given together or one by one."""
    made = chimera("key", "create", "--name", "ci", "--scopes", "submit,work", "--scope", "read", *address)
    assert made.code == 0, made.err
    secret = made.out.strip()
    assert len(secret) > 40
    assert secret not in made.err
    (entry,) = listed(chimera, address)
    assert (entry["name"], entry["owner"], entry["scopes"]) == ("ci", "ci", ["read", "submit", "work"])
    table = chimera("key", "list", *address)
    assert entry["id"] in table.out
    assert secret not in table.out
    revoked = chimera("key", "revoke", entry["id"], *address)
    assert (revoked.code, revoked.out) == (0, f"Revoked key {entry['id']} (ci).\n")
    assert listed(chimera, address)[0]["revoked_at"]


def test_a_program_reads_one_document(chimera: Shell, address: tuple[str, str]) -> None:
    """With the secret, and nothing else on stdout."""
    made = chimera("key", "create", "--name", "w", "--scopes", "work", "--owner", "ops", "--json", *address)
    document = json.loads(made.out)
    assert (document["owner"], document["scopes"]) == ("ops", ["work"])
    assert document["key"]
    revoked = chimera("key", "revoke", document["id"], "--json", *address)
    assert json.loads(revoked.out)["id"] == document["id"]


def test_without_keys_the_list_says_what_that_means(chimera: Shell, address: tuple[str, str]) -> None:
    """And what to do next."""
    result = chimera("key", "list", *address)
    assert (result.code, "chimera key create" in result.out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("create", "--name", "x"), "--scopes"),
        (("create", "--name", "x", "--scopes", "root"), "root"),
        (("create", "--name", "x", "--scopes", ""), "read"),
        (("create", "--scopes", "read"), "--name"),
        (("create", "--name", "", "--scopes", "read"), "name"),
        (("create", "--name", "two\nlines", "--scopes", "read"), "name"),
        (("create", "--name", "x" * 201, "--scopes", "read"), "200"),
        (("revoke", "nothing"), "nothing"),
        (("revoke",), "ID"),
    ],
)
def test_bad_input_is_told(
    chimera: Shell, address: tuple[str, str], arguments: tuple[str, ...], told: str
) -> None:
    """Exit code 2, and no key is made."""
    result = chimera("key", *arguments, *address)
    assert (result.code, result.out) == (2, "")
    assert told in result.err
    assert listed(chimera, address) == []


def test_postgres_that_is_behind_is_told(chimera: Shell, postgres_url: str) -> None:
    """It is not upgraded unasked."""
    result = chimera("key", "list", "--database-url", postgres_url)
    assert (result.code, "chimera database upgrade" in result.err) == (3, True)
