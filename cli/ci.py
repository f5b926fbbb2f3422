"""`chimera ci`: are the models of a repository as fast and as small as when they were last accepted?"""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.errors import DONE, NEGATIVE, NOT_ANSWERED, InputError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tuner.regressions.answer import CiAnswer, ModelAnswer
    from tuner.regressions.manifest import Manifest
    from tuner.regressions.records import Baseline, ModelRecord

EXAMPLE = "chimera ci --init\n  chimera ci --accept\n  chimera ci --junit chimera.xml --summary chimera.md"
_MANIFEST = Path("chimera.toml")
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(epilog=f"\b\nExample:\n  {EXAMPLE}")
@click.argument("manifest", type=click.Path(path_type=Path), default=_MANIFEST, metavar="[MANIFEST]")
@click.option(
    "--baseline", type=_FILE, metavar="FILE", show_default="the manifest's", help="To compare with."
)
@click.option(
    "--against", metavar="REVISION",
    help="Compare with the same manifest at a revision of git, checked on this machine.",
)  # fmt: skip
@click.option("--init", is_flag=True, help="Write a manifest to start from, and do nothing else.")
@click.option("--accept", is_flag=True, help="Write what is found as the new baseline.")
@click.option("--again", is_flag=True, help="Time the layers of unchanged models too.")
@click.option("--junit", type=_FILE, metavar="FILE", help="Write JUnit XML.")
@click.option("--summary", type=_FILE, metavar="FILE", help="Write Markdown for a pull request.")
@click.option("--upload", is_flag=True, help="Keep new profiles in the service at CHIMERA_URL.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def ci(
    *,
    manifest: Path,
    baseline: Path | None,
    against: str | None,
    init: bool,
    accept: bool,
    again: bool,
    junit: Path | None,
    summary: Path | None,
    upload: bool,
    as_json: bool,
) -> int:
    """Check the models of a manifest against a baseline.

    Layers of new and changed models are timed, plans made, and both compared with what was accepted last.
    Exit code 0 all is well, 1 a regression, 2 a bad manifest, 3 a model could not be measured. Estimates
    need no accelerator, no torch and no network.
    """
    from cli.ci_against import baseline_at
    from cli.files import check_writable, write_whole

    if init:
        return _start(manifest)
    asked = _read(manifest)
    kept = (baseline or manifest.parent / asked.baseline).resolve()
    outputs = [path.resolve() for path in (junit, summary, kept if accept else None) if path]
    for path in outputs:
        check_writable(path)
    before = baseline_at(against, manifest) if against else _baseline(kept, accept=accept)
    with chdir(manifest.resolve().parent):
        answer, records = _examine(
            asked, before, name=kept.name if accept else against or kept.name, again=again, accept=accept
        )
    if accept:
        _accept(kept, asked, before, records=records)
    if upload:
        _upload(records)
    from tuner.regressions.junit import junit_xml
    from tuner.regressions.summary import markdown

    for target, text in ((junit, junit_xml), (summary, markdown)):
        if target:
            write_whole(target, text(answer))
    _print(answer, as_json=as_json)
    return _exit_code(answer)


def _start(path: Path) -> int:
    from cli.files import write_whole
    from tuner.regressions.starter import STARTER

    if path.exists():
        raise InputError(f"{str(path)[:200]!r} is there already: nothing was written")
    write_whole(path, STARTER)
    click.echo(f"Wrote {path}. Next: name your models in it, then chimera ci --accept")
    return DONE


def _read(path: Path) -> Manifest:
    from cli.files import read_bounded
    from tuner.regressions.manifest import MOST_BYTES, read_manifest

    if not path.exists():
        raise InputError(
            f"there is no {str(path)[:200]!r}: `chimera ci --init` writes a manifest to start from"
        )
    return read_manifest(read_bounded(path, most=MOST_BYTES), name=str(path)[:200])


def _baseline(path: Path, *, accept: bool) -> Baseline | None:
    """The baseline in a file; None where there is none yet, or a damaged one that is to be written anew."""
    from cli.sources import read_document
    from profiles.errors import MalformedDocumentError
    from tuner.regressions.records import Baseline

    if not path.exists():
        return None
    try:
        return read_document(str(path), Baseline)
    except MalformedDocumentError as error:
        if not accept:
            raise
        click.echo(f"note: the baseline is written anew: {error}", err=True)
        return None


def _examine(
    asked: Manifest, before: Baseline | None, *, name: str, again: bool, accept: bool
) -> tuple[CiAnswer, list[ModelRecord]]:
    """All models in turn, once the files of all were read; what cannot be measured holds up none."""
    from cli.ci_models import examine, prepare
    from tuner.regressions.answer import CiAnswer

    checks = [prepare(model) for model in asked.models]
    answers: list[ModelAnswer] = []
    records: list[ModelRecord] = []
    for check in checks:
        old = before.find(check.model.name) if before else None
        try:
            answer, record = examine(check, old, asked.thresholds, again=again, twice=accept)
        except UnavailableError as error:
            answer = _not_measurable(check.model.name, str(error))
        else:
            records.append(record)
        click.echo(f"{answer.name}: {answer.status.replace('_', ' ')}", err=True)
        answers.append(answer)
    return CiAnswer(models=tuple(answers), baseline=name, accepted=accept), records


def _not_measurable(name: str, why: str) -> ModelAnswer:
    from tuner.regressions.answer import Change, ModelAnswer

    change = Change(
        kind="error", what="measurement", regression=False, message=f"could not be measured: {why}"
    )
    return ModelAnswer(name=name, status="not_measurable", changes=(change,))


def _accept(path: Path, asked: Manifest, before: Baseline | None, *, records: list[ModelRecord]) -> None:
    """Write the new records; what could not be measured keeps its old one."""
    from cli.files import write_whole
    from tuner.regressions.records import write_baseline

    found = {record.name: record for record in records}
    kept = [found.get(model.name) or (before.find(model.name) if before else None) for model in asked.models]
    document = write_baseline(tuple(record for record in kept if record))
    write_whole(path, document.to_json() + "\n")
    count = len(document.models)
    click.echo(f"Wrote the baseline of {count} model{'s' * (count != 1)} to {path.name}: commit it", err=True)


def _upload(records: list[ModelRecord]) -> None:
    """Keep the profiles in the service; that nobody answers is told, and changes no verdict."""
    import os

    from cli.remote import connected
    from tuner.client_errors import UnreachableError
    from tuner.errors import TunerError

    url = os.environ.get("CHIMERA_URL")
    if not url:
        click.echo("note: --upload does nothing without CHIMERA_URL", err=True)
        return
    try:
        with connected(url, 10.0) as calls:
            for record in records:
                identifier = calls.keep_profile(record.profile)
                click.echo(f"{record.name}: {url.rstrip('/')}/profiles/{identifier}", err=True)
    except (UnreachableError, TunerError) as error:
        click.echo(f"note: profiles were not uploaded: {error}", err=True)


def _print(answer: CiAnswer, *, as_json: bool) -> None:
    if as_json:
        from profiles.document import canonical_json

        click.echo(canonical_json(answer.model_dump(mode="json")))
    else:
        click.echo("\n".join(_describe(answer)))


def _describe(answer: CiAnswer) -> Iterator[str]:
    from cli.quantities import gigabytes, table
    from tuner.regressions.summary import verdict

    rows = [
        [
            model.name,
            model.status.replace("_", " "),
            model.configuration or "nothing fits" if model.status != "not_measurable" else "",
            "" if model.throughput_samples_per_s is None else f"{model.throughput_samples_per_s:,.2f}",
            "" if model.peak_memory_bytes is None else gigabytes(model.peak_memory_bytes),
        ]
        for model in answer.models
    ]
    yield from table(["model", "status", "best configuration", "samples/s", "memory"], rows, indent=0)
    for model in answer.models:
        if model.changes:
            yield ""
            yield f"{model.name}:"
            yield from (f"  {'!' if change.regression else '-'} {change.message}" for change in model.changes)
            yield from [f"  cause: {model.cause}"] if model.cause else []
    yield ""
    yield f"{verdict(answer)}. {_next(answer)}"


def _next(answer: CiAnswer) -> str:
    if answer.accepted:
        return f"Next: commit {answer.baseline}."
    if answer.count("regressed"):
        return "Next: repair what is marked with !, or take it over with chimera ci --accept."
    if answer.count("not_measurable"):
        return "Next: repair what could not be measured; nothing else failed."
    if answer.count("new") or answer.count("not_comparable"):
        return "Next: chimera ci --accept writes a baseline to compare with."
    return f"Compared with {answer.baseline}."


def _exit_code(answer: CiAnswer) -> int:
    if answer.count("regressed") and not answer.accepted:
        return NEGATIVE
    return NOT_ANSWERED if answer.count("not_measurable") else DONE
