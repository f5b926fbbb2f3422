"""What do the command-line tests share? A command run in this process."""

import pytest

from tests.cli.command import Shell


@pytest.fixture
def chimera(capsys: pytest.CaptureFixture[str]) -> Shell:
    """Runs `chimera` with arguments; gives exit code, stdout and stderr."""
    return Shell(capsys)
