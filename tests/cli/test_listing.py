"""Does `chimera list` show what the other commands take?"""

import json

import pytest

from profiles import library
from tests.cli.command import Shell
from tuner.schedules import SCHEMES

KNOWN = {
    "models": library.names("models"),
    "accelerators": library.names("devices"),
    "clusters": library.names("clusters"),
    "schedules": tuple(SCHEMES),
}


@pytest.mark.parametrize("noun", KNOWN)
def test_every_name_is_listed(chimera: Shell, noun: str) -> None:
    """In JSON under the noun, for people one a line."""
    document = json.loads(chimera("list", noun, "--json").out)
    assert [entry["name"] for entry in document[noun]] == list(KNOWN[noun])
    lines = chimera("list", noun).out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(KNOWN[noun])


def test_every_listed_schedule_can_be_planned(chimera: Shell) -> None:
    """What is listed exists."""
    for name in KNOWN["schedules"]:
        result = chimera(
            "plan", "--model", "tiny-gpt", "--cluster", "dgx-h100", "--devices", "4",
            "--mini-batch-size", "64", "--schedules", name, "--json",
        )  # fmt: skip
        assert result.code == 0, result.err
        assert json.loads(result.out)["chosen"]["schedule"] == name
