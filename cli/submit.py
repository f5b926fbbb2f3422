"""`chimera submit`: what does a service answer to the question of `chimera plan`?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cli.choices import EXPORTS
from cli.errors import DONE, InputError, visible
from cli.options import REQUEST, with_options
from cli.remote import SERVICE, connected, describe_study, exit_code_of, follow

if TYPE_CHECKING:
    from tuner.study_calls import Study, StudyCalls

EXAMPLE = "chimera submit --model bert-48 --cluster piz-daint --devices 32 --mini-batch-size 512 --export env"


@click.command(epilog=f"\b\nExample:\n  {EXAMPLE}")
@with_options(REQUEST)
@click.option("--name", metavar="TEXT", help="What people call the study.")
@click.option("--trials", type=click.IntRange(1, 10_000), help="Have workers run so many of the best.")
@click.option("--device-seconds", type=click.FloatRange(0, min_open=True), help="At most so long, of trials.")
@click.option("--pool", metavar="NAME", help="The pool of workers that runs trials.")
@click.option(
    "--wait", type=click.FloatRange(0, 604_800), default=0.0, metavar="SECONDS",
    help="Seconds to wait for the answer where workers have to measure first.",
)  # fmt: skip
@click.option("--export", "format", type=click.Choice(EXPORTS), help="Print launch flags instead of tables.")
@click.option(
    "--idempotency-key", metavar="TEXT",
    help="Submissions with one key make one study: give all nodes of a job the job's id.",
)  # fmt: skip
@with_options(SERVICE)
def submit(*, url: str, patience: float, as_json: bool, wait: float, format: str | None, **asked: Any) -> int:
    """Ask a service, which keeps the question with its answer.

    Without --wait it is told how far the study is; what needs no worker is answered at once.
    """
    key = _header(asked.pop("idempotency_key"))
    with connected(url, patience) as calls:
        body = _body(asked, calls)
        study = calls.submit(body, wait_s=wait, idempotency_key=key)
        study = follow(calls, study, wait_s=wait)
        return tell(calls, study, format=format, as_json=as_json, waited=bool(wait or format))


def tell(calls: StudyCalls, study: Study, *, format: str | None, as_json: bool, waited: bool) -> int:
    """Print a study, or its export; an answer that was waited for and did not come is exit code 3."""
    from tuner.study_calls import study_text

    code = exit_code_of(study)
    exported = _export(calls, study["id"], format) if format and code == DONE else None
    if as_json:
        click.echo(study_text(study | ({"export": exported} if exported else {})))
    elif exported:
        click.echo(exported["text"], nl=False)
    else:
        # Where launch flags were asked for, nothing else may come out where they would.
        click.echo(visible("\n".join(describe_study(study, url=calls.url))), err=format is not None)
    ended = study["status"] in {"done", "failed", "cancelled"}
    return code if ended or waited else DONE


def _export(calls: StudyCalls, identifier: str, format: str) -> dict[str, str]:
    text, media_type = calls.export(identifier, format)
    return {"format": format, "media_type": media_type, "text": text}


def _header(key: str | None) -> str | None:
    if key is not None and not (key.isascii() and key.isprintable() and key.strip() == key and key):
        raise InputError(f"--idempotency-key {key[:60]!r}: give one line of ASCII characters")
    return key


def _body(asked: dict[str, Any], calls: StudyCalls) -> dict[str, Any]:
    """The request as the service reads it: documents inline, a profile under its id."""
    from cli.sources import read_cluster, read_named_model, sendable

    refine = {name: asked.pop(name) for name in ("trials", "device_seconds", "pool")}
    model, profile = read_named_model(asked["model"])
    if profile is not None:
        model = {"profile": calls.keep_profile(profile)}
    cluster = sendable(read_cluster(asked["cluster"])) if asked["cluster"] else None
    calibration = _calibration(asked.get("calibration"))
    body = asked | {"model": model, "cluster": cluster, "calibration": calibration}
    if refine["trials"] is None and (refine["device_seconds"] or refine["pool"]):
        raise InputError("--device-seconds and --pool are of trials: add --trials K")
    if refine["trials"] is not None:
        body["refine"] = {name: value for name, value in refine.items() if value is not None}
    return {name: value for name, value in body.items() if value is not None}


def _calibration(named: str | None) -> str | None:
    """The id that a calibration has in the service: what stands in the file, or the id itself."""
    from pathlib import Path

    from cli.sources import read_document
    from profiles.calibration import Calibration

    if named is None or not Path(named).exists():
        return named
    return read_document(named, Calibration).fingerprint()
