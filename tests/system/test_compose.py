"""Can the compose file and the images start what they name, and nothing open to a network?"""

import json
import re
import shutil
import sqlite3
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from api.settings import Settings
from cli.beside import LEAVE_S

ROOT = Path(__file__).parents[2]
CHIMERA = Path(sysconfig.get_path("scripts")) / "chimera"
SECRET = "correct-horse"
TEXT = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")


class MissingVariableError(Exception):
    """A variable is required and unset, as `docker compose` would say."""


def interpolate(text: str, environment: dict[str, str]) -> str:
    """Replace ${NAME:-default} and ${NAME:?message} as docker compose does."""

    def value(match: re.Match[str]) -> str:
        name, operator, rest = match.groups()
        if environment.get(name):
            return environment[name]
        if operator == ":?":
            raise MissingVariableError(f"{name}: {rest}")
        return rest

    return re.sub(r"\$\{(\w+)(:[-?])([^}]*)\}", value, text)


@pytest.fixture
def compose() -> dict[str, Any]:
    """The compose file with its secrets given."""
    return yaml.safe_load(interpolate(TEXT, {"CHIMERA_POSTGRES_PASSWORD": SECRET}))


def dockerfile_commands() -> list[list[str]]:
    """The CMD of each image (the health check's is the CMD that a line continues)."""
    return [json.loads(line) for line in re.findall(r"^CMD (\[.*\])$", _dockerfile(), flags=re.MULTILINE)]


def test_the_compose_file_follows_the_compose_specification(compose: dict[str, Any]) -> None:
    """No key is misspelt and every port, volume and condition parses."""
    PyCompose.from_yaml(yaml.safe_dump(compose)).validate()
    named = {
        volume.split(":")[0]
        for service in compose["services"].values()
        for volume in service.get("volumes", [])
    }
    assert named == set(compose["volumes"])


@pytest.mark.parametrize("environment", [{}, {"CHIMERA_POSTGRES_PASSWORD": ""}])
def test_nothing_starts_without_the_password(environment: dict[str, str]) -> None:
    """An unset and an empty password are both refused with what to do."""
    with pytest.raises(MissingVariableError, match=r"CHIMERA_POSTGRES_PASSWORD: set it in \.env"):
        interpolate(TEXT, environment)


def test_no_secret_has_a_default() -> None:
    """Every variable that holds a secret is required; the example leaves it empty."""
    for name, operator, _ in re.findall(r"\$\{(\w+)(:[-?])?([^}]*)\}", TEXT):
        if re.search("PASSWORD|SECRET|KEY|TOKEN", name):
            assert operator == ":?", name
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    assert re.findall(r"PASSWORD=(.*)$", example, flags=re.MULTILINE) == [""]


def test_only_this_host_can_reach_anything(compose: dict[str, Any]) -> None:
    """Published ports are bound to loopback, and what shares the host's network listens on loopback."""
    for name, service in compose["services"].items():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), name
        if service.get("network_mode") == "host" and "serve" in service["command"]:
            command = service["command"]
            assert command[command.index("--host") + 1] == "127.0.0.1"


def test_our_containers_have_no_privileges(compose: dict[str, Any]) -> None:
    """They run as a numbered user that is not root, without capabilities, on a read-only file system."""
    for name in ("migrate", "api"):
        service = compose["services"][name]
        assert service["cap_drop"] == ["ALL"], name
        assert service["read_only"] is True, name
    users = re.findall(r"^USER (\d+)", _dockerfile(), flags=re.MULTILINE)
    assert users
    assert "0" not in users


def test_the_service_starts_after_the_migration_and_the_migration_after_the_database(
    compose: dict[str, Any],
) -> None:
    """A service never meets a database without its tables."""
    services = compose["services"]
    assert services["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert services["migrate"]["command"] == ["database", "upgrade"]
    assert services["api"]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}


def test_the_images_that_the_compose_file_builds_exist(compose: dict[str, Any]) -> None:
    """Each build target is a stage of the Dockerfile, and each folder that it copies exists."""
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", _dockerfile(), flags=re.MULTILINE))
    assert {"service", "worker"} <= stages
    assert {
        service["build"]["target"] for service in compose["services"].values() if "build" in service
    } <= stages
    for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", _dockerfile(), flags=re.MULTILINE):
        for source in sources.split():
            assert (ROOT / source).exists(), source


def test_every_command_of_compose_file_and_images_is_one_that_chimera_knows(compose: dict[str, Any]) -> None:
    """Each parses: an unknown command or option fails even when --help follows it."""
    commands = [service["command"] for service in compose["services"].values() if "command" in service]
    for command in commands + dockerfile_commands():
        result = subprocess.run([CHIMERA, *command, "--help"], capture_output=True, text=True, check=False)
        assert result.returncode == 0, f"chimera {' '.join(command)}: {result.stderr}"


def test_the_health_checks_fail_while_the_service_is_not_ready(
    compose: dict[str, Any], tmp_path: Path
) -> None:
    """Their commands are run against a service, well and then without the tables of its release."""
    checks = [
        compose["services"]["api"]["healthcheck"]["test"],
        json.loads(next(re.finditer(r"^ +CMD (\[.*\])$", _dockerfile(), flags=re.MULTILINE))[1]),
    ]
    serve = [*compose["services"]["api"]["command"], "--json", "--database-url", f"sqlite:///{tmp_path}/a.db"]
    port = serve[serve.index("--port") + 1]
    serve[serve.index("--port") + 1] = "0"
    with subprocess.Popen([CHIMERA, *serve], stdout=-1, stderr=-1, text=True, cwd=tmp_path) as service:
        assert service.stdout
        there = json.loads(service.stdout.readline())["port"]
        for is_well in (True, False):
            if not is_well:
                with sqlite3.connect(tmp_path / "a.db", isolation_level=None) as database:
                    database.execute("UPDATE alembic_version SET version_num = '0001'")
                database.close()
            for check in checks:
                command = [part for part in check if part != "CMD"]
                assert f"http://127.0.0.1:{port}/readyz" in command[-1]
                command[-1] = command[-1].replace(port, str(there))
                # What was well a moment ago is not asked again within a second.
                code = subprocess.run([sys.executable, *command[1:]], stderr=-1, check=False).returncode
                while (code == 0) != is_well:
                    assert not is_well
                    code = subprocess.run([sys.executable, *command[1:]], stderr=-1, check=False).returncode
        service.terminate()


def test_the_service_may_take_the_time_that_it_needs_to_stop(compose: dict[str, Any]) -> None:
    """It is not killed while it answers what is in flight."""
    seconds = int(compose["services"]["api"]["stop_grace_period"].removesuffix("s"))
    assert seconds > Settings().shutdown_seconds + 2 * LEAVE_S


def test_the_unit_of_systemd_starts_what_there_is(tmp_path: Path) -> None:
    """Its command is one that chimera knows, its settings exist, and systemd has nothing against it."""
    text = (ROOT / "examples/operations/chimera.service").read_text(encoding="utf-8")
    command = re.search(r"^ExecStart=/opt/chimera/bin/chimera (.*)$", text, flags=re.MULTILINE)
    assert command
    subprocess.run([CHIMERA, *command[1].split(), "--help"], check=True, stdout=-1)
    named = re.findall(r"^Environment=CHIMERA_(\w+)=", text, flags=re.MULTILINE)
    assert {name.lower() for name in named} <= set(Settings.model_fields)
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd here to check the unit")
    unit = tmp_path / "chimera.service"
    unit.write_text(text.replace("/opt/chimera/bin/chimera", str(CHIMERA)))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def _dockerfile() -> str:
    return (ROOT / "Dockerfile").read_text(encoding="utf-8")
