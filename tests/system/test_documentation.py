"""Does what the documentation shows run, and is what it names there?"""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from cli.main import app
from tests.cli.command import CHIMERA
from tests.system.documentation import (
    PAGES,
    READ,
    ROOT,
    RUN,
    Block,
    anchors,
    blocks,
    links,
    named,
    session,
)
from tests.system.site import kill

EXCUSED = {
    ("README.md", "make demo"): "tests/system/test_demo.py runs it, and `make test` is this suite",
    ("CONTRIBUTING.md", "make"): "it runs this suite",
    ("ARCHITECTURE.md", "cli/"): "a picture",
    ("ARCHITECTURE.md", "generate("): "a picture",
    ("ARCHITECTURE.md", "lower("): "a picture",
    ("ARCHITECTURE.md", '"""'): "a module of the repository",
}
"""Blocks that have no comment of their own, by how they start."""
SERVICE = "127.0.0.1:8000"
"""Where pages find the service; the tests' own has another port."""
FOLDERS = "api|benchmarks|cli|docs|examples|executor|migrations|profiles|tests|tuner"
PATIENCE_S = 900
_SERVES = re.compile(r"^(\.venv[a-z-]*/bin/)?chimera serve\b.*$", flags=re.MULTILINE)
_PATH = re.compile(rf"(?:{FOLDERS})/[\w./-]+\.(?:py|md|json|toml|yml|sh|sbatch|js|css|html)")
_NAMED_SO = re.compile(r"(?:\.venv[a-z-]*/bin/)?chimera [a-z]")
_CALLED = re.compile(r"(?:^|[\s(])(?:\.venv[a-z-]*/bin/)?chimera ([a-z][^\n|;&)#]*)")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Host and port of a service without keys."""
    folder = tmp_path_factory.mktemp("service")
    process = subprocess.Popen(
        [*CHIMERA, "serve", "--port", "0", "--json"],
        cwd=folder,
        env=os.environ | {"XDG_DATA_HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    told = process.stdout.readline() if process.stdout else ""
    assert told
    yield f"127.0.0.1:{json.loads(told)['port']}"
    kill(process)


def make_place(folder: Path) -> dict[str, str]:
    """A checkout as pages find it: `chimera` on the path and in .venv, and the examples."""
    for name, command in (("chimera", CHIMERA), ("python", (sys.executable,))):
        for bin_folder in ("bin", ".venv/bin", ".venv-demo/bin"):
            place = folder / bin_folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
            place.chmod(0o755)
    for name in ("examples", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    (folder / ".curlrc").write_text("fail-with-body\nsilent\nshow-error\n")
    path = f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = {"PATH": path, "HOME": str(folder), "XDG_DATA_HOME": str(folder / "data"), "COLUMNS": "110"}
    return os.environ | own


def run_page(page: str, folder: Path, *, service: str | None, with_long: bool) -> None:
    """Run the blocks of a page in order, in one shell, then its Python in one program."""
    environment = make_place(folder)
    chosen = [block for block in blocks(page) if block.why_not is None and not is_excused(block)]
    chosen = [block for block in chosen if with_long or not block.is_long]
    script = "set -e\n" + "".join(_as_script(block) for block in chosen)
    program = "".join(block.text for block in chosen if block.language == "python")
    if service:
        script = _SERVES.sub("", script).replace(SERVICE, service)
    for command in (["bash", "-c", script], [sys.executable, "-P", "-c", program]):
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, f"{page}: {done.stderr[-3000:]}\n{done.stdout[-500:]}"
    for block in chosen:
        if block.language == "console":
            _compare(block, folder)


def _as_script(block: Block) -> str:
    if block.language == "sh":
        return f"echo 'block {block.number}' >&2\n{block.text}"
    if block.language == "console":
        return "".join(
            f"{{ {command}\n}} > {block.number}-{number}.txt 2>&1 || true\n"
            for number, (command, _) in enumerate(session(block.text))
        )
    return ""


def _compare(block: Block, folder: Path) -> None:
    """Each line that a page shows was printed, in that order; `...` stands for what is left out."""
    for number, (command, shown) in enumerate(session(block.text)):
        printed = (folder / f"{block.number}-{number}.txt").read_text()
        left = [line.rstrip() for line in printed.splitlines()]
        for line in (line.rstrip() for line in shown):
            if line and line.strip() != "...":
                assert line in left, f"{block.page}, block {block.number}, {command}: {line!r}\n{printed}"
                left = left[left.index(line) + 1 :]


def is_excused(block: Block) -> bool:
    """Whether it is a block of a page that takes no comments."""
    return any(page == block.page and block.text.startswith(start) for page, start in EXCUSED)


def _runs(page: str, *, long: bool) -> bool:
    runnable = [b for b in blocks(page) if b.language in RUN and b.why_not is None and not is_excused(b)]
    return any(block.is_long == long for block in runnable)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run_or_read_or_says_why_not(page: str) -> None:
    """A language stands at its start; a reason in a comment before it."""
    for block in blocks(page):
        where = f"{page}, block {block.number}: {block.text[:60]!r}"
        known = block.language in RUN | READ or is_excused(block)
        assert known, f"{where}: name one of {', '.join(sorted(RUN | READ))} behind the backticks"
        if block.language == "text":
            assert not re.match(r"(\$ |chimera |curl )", block.text), where
        if block.why_not is None:
            _read(block)


def _read(block: Block) -> None:
    if block.language == "json":
        json.loads(block.text)
    if block.language == "toml":
        tomllib.loads(block.text)
    if block.language == "yaml":
        yaml.safe_load(block.text)


@pytest.mark.parametrize("page", [page for page in PAGES if _runs(page, long=False)])
def test_what_a_page_shows_runs(page: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Each command in one folder, none fails, and what a console is shown to print is printed."""
    needed = any(SERVICE in block.text for block in blocks(page) if block.why_not is None)
    run_page(page, tmp_path, service=request.getfixturevalue("service") if needed else None, with_long=False)


@pytest.mark.long
@pytest.mark.timeout(2 * PATIENCE_S)
@pytest.mark.parametrize("page", [page for page in PAGES if _runs(page, long=True)])
def test_what_a_page_shows_runs_where_it_takes_long(
    page: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Also what trains, measures and tunes."""
    needed = any(SERVICE in block.text for block in blocks(page) if block.why_not is None)
    run_page(page, tmp_path, service=request.getfixturevalue("service") if needed else None, with_long=True)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    """To a file of the repository, and to a heading that it has."""
    for target in links(page):
        path, _, anchor = target.partition("#")
        found = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        assert found.exists(), f"{page}: {target}"
        if anchor:
            assert anchor in anchors(found.relative_to(ROOT).as_posix()), f"{page}: {target}"


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])
def test_files_that_are_named_are_there(page: str) -> None:
    """Paths from the repository's root, in the text."""
    missing = [
        path
        for text in named(page)
        for path in _PATH.findall(text)
        if text == path and not (ROOT / path).exists()
    ]
    assert not missing


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])
def test_commands_that_are_named_have_those_options(page: str) -> None:
    """In the text, in blocks, and in those that are not run."""
    texts = [text for text in named(page) if _NAMED_SO.match(text)]
    texts += [block.text for block in blocks(page) if block.language == "sh"]
    shown = [block.text for block in blocks(page) if block.language == "console"]
    texts += [command for text in shown for command, _ in session(text)]
    for text in texts:
        for called in _CALLED.findall(text.replace("\\\n", " ")):
            unknown = _unknown(called.split())
            assert unknown is None, f"{page}: chimera {called}: {unknown}"


def _unknown(words: list[str]) -> str | None:
    """The first word of a call that `chimera` does not know."""
    command: click.Command = app
    while isinstance(command, click.Group):
        if not words:
            return None
        if words[0] not in command.commands:
            return words[0]
        command, words = command.commands[words[0]], words[1:]
    own = words[: words.index("--")] if "--" in words else words
    options = {name for parameter in command.params for name in parameter.opts} | {"--help", "--"}
    given = [word.partition("=")[0].strip("'\"`,.") for word in own if re.match(r"--[a-z]", word)]
    return next((word for word in given if word not in options), None)
