"""Does the built wheel work alone: no checkout, no torch, in a folder whose own packages have our names?"""

import json
import os
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # packages are fetched, from wherever they are

ROOT = Path(__file__).parents[2]
PACKAGES = ("profiles", "tuner", "executor", "api", "cli", "migrations")
PLAN = ("--model", "bert-48", "--cluster", "piz-daint", "--devices", "32", "--mini-batch-size", "512")


@dataclass(frozen=True)
class Installation:
    """The wheel in an environment of its own, used from a folder that shadows its packages."""

    wheel: Path
    python: Path
    folder: Path
    environment: dict[str, str]

    def chimera(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the installed command to its end."""
        return subprocess.run(
            [self.python.with_name("chimera"), *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )


def pip_for(python: Path) -> tuple[str, ...]:
    """This environment's pip, at work in another one."""
    return (sys.executable, "-m", "pip", "--python", str(python))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Build the wheel and install it with the pinned base dependencies only."""
    folder = tmp_path_factory.mktemp("wheel")
    _run(
        sys.executable,
        "-P",
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(folder),
        cwd=ROOT,
    )
    (wheel,) = folder.glob("chimera_tuner-*.whl")
    python = folder / "venv" / "bin" / "python"
    _run(sys.executable, "-m", "venv", "--without-pip", str(folder / "venv"), cwd=folder)
    _run(
        *pip_for(python),
        "install",
        "-qq",
        "--no-compile",  # what is used is compiled then; most of Plotly never is
        "-c",
        str(ROOT / "constraints.txt"),
        str(wheel),
        cwd=folder,
    )
    work = folder / "work"
    for package in PACKAGES:
        (work / package).mkdir(parents=True)
        (work / package / "__init__.py").write_text("raise RuntimeError('the wrong package was imported')\n")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("CHIMERA_", "PYTHON"))
    }
    environment |= {"HOME": str(folder), "CHIMERA_DATABASE_URL": f"sqlite:///{folder}/chimera.db"}
    return Installation(wheel=wheel, python=python, folder=work, environment=environment)


@pytest.fixture
def service(installed: Installation) -> Iterator[str]:
    """The address of the installed service, stopped after the test."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    upgraded = installed.chimera("database", "upgrade")
    assert upgraded.returncode == 0, upgraded.stderr
    log = installed.folder / "serve.log"
    with log.open("w") as output:
        command = [installed.python.with_name("chimera"), "serve", "--port", str(port)]
        process = subprocess.Popen(
            command, cwd=installed.folder, env=installed.environment, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            with httpx.Client(transport=httpx.HTTPTransport(retries=7)) as client:
                health = client.get(f"http://127.0.0.1:{port}/healthz")
            assert health.status_code == 200, log.read_text()
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(timeout=60)


def test_the_wheel_holds_every_file_of_the_packages(installed: Installation) -> None:
    """Documents, templates, styles, scripts and py.typed travel with the code."""
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file())
    present = {str(path.relative_to(ROOT)) for path in files if path.suffix != ".pyc"}
    assert {f"{package}/py.typed" for package in PACKAGES} <= present
    with zipfile.ZipFile(installed.wheel) as archive:
        assert present <= set(archive.namelist())


def test_the_environment_has_no_torch(installed: Installation) -> None:
    """The base dependencies are enough for the service: torch is an extra."""
    listing = _run(*pip_for(installed.python), "list", "--format", "json", cwd=installed.folder)
    names = {entry["name"].lower() for entry in json.loads(listing)}
    assert not names & {"torch", "transformers", "ray", "submitit", "pytest"}


def test_the_wheel_plans(installed: Installation) -> None:
    """A plan needs nothing but the wheel."""
    result = installed.chimera("plan", *PLAN, "--schedules", "chimera", "--search", "greedy", "--json")
    assert result.returncode == 0, result.stderr
    chosen = json.loads(result.stdout)["chosen"]
    assert (chosen["width"], chosen["depth"], chosen["micro_batch_size"]) == (8, 4, 8)


def test_the_wheel_migrates_serves_and_shows_a_report(installed: Installation, service: str) -> None:
    """A study posted to the installed service has a report page whose scripts and styles are served too."""
    request = {"model": "bert-48", "cluster": "piz-daint", "devices": 32, "mini_batch_size": 512}
    with httpx.Client(base_url=service, follow_redirects=True, timeout=60) as client:
        created = client.post("/v1/studies", json=request)
        assert created.status_code == 201, created.text
        report = client.get(f"/studies/{created.json()['id']}")
        assert report.status_code == 200
        assert "text/html" in report.headers["content-type"]
        for asset in _assets(report.text):
            assert client.get(asset).status_code == 200, asset


def _assets(page: str) -> list[str]:
    from html.parser import HTMLParser

    found: list[str] = []

    class Finder(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            wanted = {"script": "src", "link": "href", "img": "src"}.get(tag)
            found.extend(value for name, value in attrs if name == wanted and value)

    Finder().feed(page)
    return [value for value in found if not value.startswith("data:")]


def _run(*command: str, cwd: Path) -> str:
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
