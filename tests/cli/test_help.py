"""Does --help answer, and do its examples run?"""

import shlex
from pathlib import Path

import click
import pytest

from cli.main import app
from tests.cli.command import Shell


def walk(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command and group below `command`, by its words."""
    children = command.commands if isinstance(command, click.Group) else {}
    return [path, *(words for name, child in children.items() for words in walk(child, (*path, name)))]


def read_examples(help_text: str) -> list[list[str]]:
    """The command lines under "Example:", as a shell splits them."""
    _, _, examples = help_text.partition("Example:\n")
    return [shlex.split(line) for line in examples.splitlines() if line.strip()]


COMMANDS = walk(app)
ASKING = {"submit", "watch", "report", "export", "cancel"}
"""Their examples run in test_submit.py."""
NEEDING = {("serve",), ("worker",), ("tune",), ("key", "revoke"), ("import", "times")}
NEEDING |= {("database", "backup"), ("database", "restore")}
NEEDING |= {(name,) for name in ASKING}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_help_ends_with_an_example(chimera: Shell, words: tuple[str, ...]) -> None:
    """Help of a command shows how that command, or one of its group, is called."""
    result = chimera(*words, "--help")
    assert (result.code, result.err) == (0, "")
    examples = read_examples(result.out)
    assert examples
    assert all(example[: 1 + len(words)] == ["chimera", *words] for example in examples)


@pytest.mark.parametrize("words", [words for words in COMMANDS if words not in NEEDING], ids=" ".join)
def test_the_example_runs(
    chimera: Shell, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What help shows can be pasted; `serve` runs until stopped, `tune` a minute, others need a service."""
    monkeypatch.chdir(tmp_path)
    for _, *arguments in read_examples(chimera(*words, "--help").out):
        result = chimera.patiently(*arguments)
        assert result.code == 0, result.err
        assert result.out


def test_help_lists_only_commands_that_exist(chimera: Shell) -> None:
    """Nothing is promised."""
    measuring = {"run", "tune", "score", "profile", "links"}
    serving = {"serve", "worker", "key", "database"}
    promised = {"plan", "simulate", "list", "import", "ci", "crossover"} | serving | measuring | ASKING
    assert set(app.commands) == promised
    assert all(name in chimera("--help").out for name in app.commands)


@pytest.mark.parametrize(
    "words", [words for words in COMMANDS if not words or words == ("list",)], ids=" ".join
)
def test_no_summary_of_a_command_is_cut(chimera: Shell, words: tuple[str, ...]) -> None:
    """Also where a terminal has 80 columns."""
    _, _, commands = chimera(*words, "--help").out.partition("Commands:")
    assert commands
    assert "..." not in commands


@pytest.mark.parametrize("words", [(), ("list",), ("database",)], ids=["chimera", "list", "database"])
def test_a_group_alone_shows_its_help(chimera: Shell, words: tuple[str, ...]) -> None:
    """It is not an answer, so the help goes to stderr with the code of bad input."""
    result = chimera(*words)
    assert result.code == 2
    assert result.out == ""
    assert "Commands:" in result.err


def test_the_version_is_the_distributions(chimera: Shell) -> None:
    """`--version` names the installed version."""
    from importlib.metadata import version

    assert chimera("--version").out == f"chimera {version('chimera-tuner')}\n"
