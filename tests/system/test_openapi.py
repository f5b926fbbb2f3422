"""Does the service do what its OpenAPI document says, whatever is sent to it?"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from api.access.keys import find_key
from tests.system.described.hooks import OWN_KEY
from tests.system.site import Site

CONFIGURATION = Path(__file__).with_name("described")
SEED = 7


def ask(site: Site, *options: str) -> int:
    """Let schemathesis go through every operation with all of its checks; returns how many cases it sent."""
    with site.database.reading() as session:
        own = find_key(session, site.admin_key)
        assert own is not None
    done = subprocess.run(
        [
            *(sys.executable, "-P", "-m", "schemathesis.cli"),
            *("--config-file", str(CONFIGURATION / "schemathesis.toml")),
            *("run", f"{site.url}/openapi.json", "--checks", "all", "--seed", str(SEED)),
            *("--header", f"Authorization: Bearer {site.admin_key}", "--request-timeout", "600"),
            *("--generation-database", "none", "--no-color", *options),
        ],
        cwd=site.folder,
        env=os.environ | {OWN_KEY: own.id, "SCHEMATHESIS_HOOKS": str(CONFIGURATION / "hooks.py")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-20_000:]}\n{done.stderr[-2_000:]}"
    found = re.search(r"(\d+) generated", done.stdout)
    assert found, done.stdout
    return int(found[1])


def test_a_few_cases_of_every_operation_find_no_fault(sqlite_site: Site) -> None:
    """All checks of schemathesis: statuses, headers, shapes, methods, keys left out; never a 5xx."""
    sqlite_site.start_api(CHIMERA_REQUIRE_KEYS="true")
    assert ask(sqlite_site, "--phases", "fuzzing", "--max-examples", "2") > 100


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_thousands_of_cases_find_no_fault(site: Site) -> None:
    """Also the bounds of every value, and what one answer says in the next request, on both databases."""
    site.start_api(CHIMERA_REQUIRE_KEYS="true")
    assert ask(site, "--max-examples", "20") > 2_000
