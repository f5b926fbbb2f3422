"""Are settings read, checked and documented?"""

from pathlib import Path

import pytest

from api.errors import SettingsError
from api.settings import PREFIX, Settings

LISTING = Path(__file__).parents[2] / "docs" / "settings.md"


def test_settings_come_from_the_environment_and_arguments_win() -> None:
    """An argument that is None leaves the variable alone; an empty variable counts as not set."""
    environment = {
        "CHIMERA_PORT": "9000",
        "CHIMERA_HOST": "localhost",
        "CHIMERA_PUBLIC_URL": "",
        "HOST": "other",
    }
    settings = Settings.from_environment(environment, host=None, port=9001)
    assert (settings.host, settings.port, settings.public_url) == ("localhost", 9001, None)


def test_without_settings_studies_are_kept_in_the_users_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default is an SQLite file below XDG_DATA_HOME."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    url = Settings.from_environment({}).database_url
    assert url == f"sqlite:///{tmp_path}/chimera-tuner/chimera.db"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CHIMERA_PORT", "http"),
        ("CHIMERA_PORT", "70000"),
        ("CHIMERA_DATABASE_URL", "mysql://host/name"),
        ("CHIMERA_DATABASE_URL", "chimera.db"),
        ("CHIMERA_DATABASE_URL", "postgresql://user:pass@word@host/name"),
        ("CHIMERA_DATABASE_URL", "postgresql://user:password@host:pass/name"),
        ("CHIMERA_PUBLIC_URL", "tuner.example.org"),
        ("CHIMERA_ROOT_PATH", "tuner/"),
        ("CHIMERA_MAX_BODY_BYTES", "1e400"),
        ("CHIMERA_LOG_LEVEL", "loud"),
    ],
)
def test_a_wrong_setting_is_named(name: str, value: str) -> None:
    """The message starts with the variable to correct."""
    with pytest.raises(SettingsError, match=f"^{name}: ") as told:
        Settings.from_environment({name: value})
    assert "word@host" not in str(told.value)


def test_the_end_of_a_line_of_windows_is_no_part_of_a_setting() -> None:
    """Files of variables have them."""
    settings = Settings.from_environment(
        {"CHIMERA_DATABASE_URL": "sqlite:///a.db\r", "CHIMERA_HOST": " \r\n"}
    )
    assert (settings.database_url, settings.host) == ("sqlite:///a.db", "127.0.0.1")


def test_every_setting_is_documented_with_its_meaning_and_default() -> None:
    """docs/settings.md has a row for each, in the words of its docstring, and no other row."""
    rows = [line.split("|") for line in LISTING.read_text().splitlines() if line.startswith("| `")]
    documented = {row[1].strip(" `"): (row[2].strip(), row[3].strip()) for row in rows}
    assert set(documented) == {PREFIX + name.upper() for name in Settings.model_fields}
    for name, field in Settings.model_fields.items():
        default, meaning = documented[PREFIX + name.upper()]
        assert meaning == field.description
        if name != "database_url":
            assert default == (f"`{field.default}`" if field.default else "none")
