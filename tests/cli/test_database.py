"""Does `chimera database upgrade` prepare a database, and only say so?"""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.cli.command import Shell


def test_upgrading_makes_the_tables_and_is_safe_to_repeat(chimera: Shell, tmp_path: Path) -> None:
    """The second time changes nothing."""
    path = tmp_path / "chimera.db"
    for _ in range(2):
        result = chimera("database", "upgrade", "--database-url", f"sqlite:///{path}", "--json")
        assert result.code == 0, result.err
        revision = json.loads(result.out)["revision"]
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == (revision,)
    connection.close()


def test_the_default_is_a_file_in_the_users_data_folder(chimera: Shell) -> None:
    """Without an option or a variable there is still a place, which is made."""
    result = chimera("database", "upgrade")
    assert result.code == 0, result.err
    assert "chimera serve" in result.out


def test_the_environment_names_the_database(
    chimera: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CHIMERA_DATABASE_URL counts where no option is given."""
    monkeypatch.setenv("CHIMERA_DATABASE_URL", f"sqlite:///{tmp_path}/here.db")
    assert chimera("database", "upgrade").code == 0
    assert (tmp_path / "here.db").exists()


def test_postgres_is_upgraded_too(chimera: Shell, postgres_url: str) -> None:
    """The same command, the same revision."""
    result = chimera("database", "upgrade", "--database-url", postgres_url, "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["revision"]
