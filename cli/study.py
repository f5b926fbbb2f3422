"""`chimera watch`, `report`, `export` and `cancel`: how far is a study of a service, and what came out?"""

from __future__ import annotations

import json
from pathlib import Path

import click

from cli.choices import EXPORTS
from cli.errors import DONE, NEGATIVE
from cli.options import with_options
from cli.remote import SERVICE, STUDY, connected, follow
from cli.submit import tell

_CONFLICT = 409


@click.command(epilog="\b\nExample:\n  chimera watch latest --wait 600")
@STUDY
@click.option(
    "--wait", type=click.FloatRange(0, 604_800), default=86_400.0, metavar="SECONDS",
    help="Seconds to wait for its end.",
)  # fmt: skip
@click.option("--export", "format", type=click.Choice(EXPORTS), help="Print launch flags at the end.")
@with_options(SERVICE)
def watch(study: str, *, wait: float, format: str | None, url: str, patience: float, as_json: bool) -> int:
    """Follow a study to its end, and print the answer.

    STUDY is the id that `chimera submit` told, or `latest`.
    """
    with connected(url, patience) as calls:
        found = follow(calls, calls.read(study), wait_s=wait)
        return tell(calls, found, format=format, as_json=as_json, waited=True)


@click.command(epilog="\b\nExample:\n  chimera report latest -o report.html")
@STUDY
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default=Path("report.html"), metavar="FILE.html",
    help="Where to write it.",
)  # fmt: skip
@with_options(SERVICE)
def report(study: str, *, output: Path, url: str, patience: float, as_json: bool) -> int:
    """Fetch the report of a study, one file that opens offline.

    STUDY is an id, or `latest`.
    """
    from cli.files import write_whole

    with connected(url, patience) as calls:
        text = calls.report(study)
    write_whole(output, text)
    told = f"Wrote the report to {output}"
    click.echo(json.dumps({"report": str(output), "bytes": len(text.encode())}) if as_json else told)
    return DONE


@click.command(epilog="\b\nExample:\n  chimera export latest slurm")
@STUDY
@click.argument("format", type=click.Choice(EXPORTS))
@with_options(SERVICE)
def export(study: str, format: str, *, url: str, patience: float, as_json: bool) -> int:
    """Print the choice of a study as launch flags.

    STUDY is an id, or `latest`. Where nothing fits the exit code is 1.
    """
    from tuner.client_errors import RefusedError

    with connected(url, patience) as calls:
        try:
            text, media_type = calls.export(study, format)
        except RefusedError as error:
            return _negative(error)
    if as_json:
        click.echo(json.dumps({"format": format, "media_type": media_type, "text": text}))
    else:
        click.echo(text, nl=False)
    return DONE


@click.command(epilog="\b\nExample:\n  chimera cancel latest")
@STUDY
@with_options(SERVICE)
def cancel(study: str, *, url: str, patience: float, as_json: bool) -> int:
    """Stop a study and its jobs.

    STUDY is an id, or `latest`. Where nothing is left to stop the exit code is 1.
    """
    from tuner.client_errors import RefusedError
    from tuner.study_calls import study_text

    with connected(url, patience) as calls:
        try:
            found = calls.cancel(study)
        except RefusedError as error:
            return _negative(error)
    click.echo(study_text(found) if as_json else f"Study {found['id']} is {found['status']}.")
    return DONE


def _negative(error: Exception) -> int:
    """A conflict is an answer, though not the one hoped for; other refusals are bad input."""
    if getattr(error, "status", None) != _CONFLICT:
        raise error
    click.echo(f"error: {error}", err=True)
    return NEGATIVE
