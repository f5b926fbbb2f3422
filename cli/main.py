"""Where does the command line start? `chimera` and its commands; what they need is imported inside them."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from cli.ci import ci
from cli.crossover import crossover
from cli.database import database
from cli.errors import BAD_INPUT, DONE, NOT_ANSWERED, exit_code, told
from cli.importing import import_group
from cli.key import key
from cli.links import links
from cli.listing import list_documents
from cli.plan import plan
from cli.profile import profile
from cli.run import run as run_command
from cli.score import score
from cli.serve import serve
from cli.simulate import simulate
from cli.study import cancel, export, report, watch
from cli.submit import submit
from cli.tune import tune
from cli.worker import worker

EXAMPLE = "chimera plan --model bert-48 --cluster piz-daint --devices 32 --mini-batch-size 512"

_INTERRUPTED = 130  # 128 + SIGINT
_BROKEN_PIPE = 141  # 128 + SIGPIPE


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True},
    epilog=f"\b\nExample:\n  {EXAMPLE}",
)
@click.version_option(package_name="chimera-tuner", message="chimera %(version)s")
@click.option("--debug", is_flag=True, show_default=False, help="Show the trace of an unexpected error.")
def app(debug: bool) -> None:
    """Choose how to split the training of a large neural network over accelerators, and see why."""


COMMANDS = (
    plan, simulate, run_command, tune, score, crossover, ci, list_documents, profile, links, import_group,
    submit, watch, report, export, cancel, serve, worker, key, database,
)  # fmt: skip
for command in COMMANDS:
    app.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and leave with its exit code."""
    _open_streams()
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def _open_streams() -> None:
    """Open what was closed (`>&-`) as the command began: else a file takes its number and gets output."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 (as long as the process)


def run(arguments: Sequence[str]) -> int:
    """Run the command; errors become one line on stderr and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a sign shows "?" instead of a trace.
        getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
    try:
        with app.make_context("chimera", list(arguments)) as context:
            code = app.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except BrokenPipeError:
        _discard_output()
        return _BROKEN_PIPE
    except (click.Abort, KeyboardInterrupt):
        return _INTERRUPTED
    except click.ClickException as error:
        return _report_usage(error)
    except Exception as error:
        if "--debug" in arguments and exit_code(error) is None:
            raise
        return _report(error)
    return code if isinstance(code, int) else DONE


def _report_usage(error: click.ClickException) -> int:
    context = getattr(error, "ctx", None)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
    else:
        hint = f"\nTry `{context.command_path} --help`." if context else ""
        click.echo(told(error.format_message()) + hint, err=True)
    return BAD_INPUT


def _report(error: Exception) -> int:
    code = exit_code(error)
    if code is not None:
        click.echo(told(error), err=True)
        return code
    if isinstance(error, OSError):
        try:
            sys.stdout.flush()
        except OSError:
            _discard_output()
        click.echo(told(f"the system refused: {error}"), err=True)
        return NOT_ANSWERED
    kind = type(error).__name__
    click.echo(
        told(f"unexpected {kind}: {error}. This is a defect; `chimera --debug ...` shows the trace"), err=True
    )
    return NOT_ANSWERED


def _discard_output() -> None:
    """Send what is still buffered for stdout nowhere, so that leaving does not fail on it again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    main()
