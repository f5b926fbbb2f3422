"""`chimera ci`: are the models of a repository as fast and as small as when they were last accepted?"""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.errors import DONE, InputError, UnavailableError

if TYPE_CHECKING:
    from cli.ci_baselines import Baselines
    from cli.ci_models import Checked
    from tuner.regressions.answer import CiAnswer, ModelAnswer
    from tuner.regressions.manifest import Manifest
    from tuner.regressions.records import Baseline, ModelRecord

EXAMPLE = "chimera ci --init\n  chimera ci --accept\n  chimera ci --junit chimera.xml --summary chimera.md"
_MANIFEST = Path("chimera.toml")
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(epilog=f"\b\nExample:\n  {EXAMPLE}")
@click.argument("manifest", type=click.Path(path_type=Path), default=_MANIFEST, metavar="[MANIFEST]")
@click.option(
    "--baseline", metavar="FILE|service", show_default="the manifest's",
    help="To compare with: a file, or what was accepted last in the service at CHIMERA_URL.",
)  # fmt: skip
@click.option(
    "--against", metavar="REVISION",
    help="Compare with the same manifest at a revision of git, checked on this machine.",
)  # fmt: skip
@click.option("--init", is_flag=True, help="Write a manifest to start from, and do nothing else.")
@click.option("--accept", is_flag=True, help="Make what is found the new baseline.")
@click.option("--again", is_flag=True, help="Time the layers of unchanged models too.")
@click.option("--junit", type=_FILE, metavar="FILE", help="Write JUnit XML.")
@click.option("--summary", type=_FILE, metavar="FILE", help="Write Markdown for a pull request.")
@click.option("--upload", is_flag=True, help="Keep profiles and verdicts in the service at CHIMERA_URL.")
@click.option(
    "--require-service", is_flag=True, help="Exit code 3 where the service does not do what was asked."
)
@click.option(
    "--patience", type=click.FloatRange(0, 86_400), default=10.0,
    help="Seconds to repeat a call while the service does not answer.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def ci(
    *,
    manifest: Path,
    baseline: str | None,
    against: str | None,
    init: bool,
    accept: bool,
    again: bool,
    junit: Path | None,
    summary: Path | None,
    upload: bool,
    require_service: bool,
    patience: float,
    as_json: bool,
) -> int:
    """Check the models of a manifest against a baseline.

    Layers of new and changed models are timed, plans made, and both compared with what was accepted last.
    Exit code 0 all is well, 1 a regression, 2 a bad manifest, 3 a model could not be measured. Estimates
    need no accelerator, no torch and no network; a service that does not answer fails nothing.
    """
    from cli.ci_answer import code_of, tell
    from cli.ci_baselines import choose
    from cli.files import check_writable
    from tuner.regressions.answer import CiAnswer

    if init:
        return _start(manifest)
    asked = _read(manifest)
    baselines = choose(asked, manifest, named=baseline, against=against, accept=accept, patience_s=patience)
    junit, summary = (path.resolve() if path else None for path in (junit, summary))
    for path in filter(None, (junit, summary, baselines.file if accept else None)):
        check_writable(path)
    before = baselines.read(accept=accept)
    with chdir(manifest.resolve().parent):
        checked = _examine(asked, baselines, before, again=again, accept=accept)
    uploaded = upload or (accept and baselines.in_service)
    answers = baselines.service.upload(checked, accept=accept) if uploaded else [each[1] for each in checked]
    accepted = accept and (baselines.service.kept or not baselines.in_service)
    if accepted:
        baselines.accept(before, [record for _, _, record in checked if record])
    problems = tuple(baselines.service.problems)
    answer = CiAnswer(models=tuple(answers), baseline=baselines.name, accepted=accepted, problems=problems)
    _write(answer, junit=junit, summary=summary)
    tell(answer, as_json=as_json)
    return code_of(answer, needs_service=require_service or accepted != accept)


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


def _examine(
    asked: Manifest, baselines: Baselines, before: Baseline | None, *, again: bool, accept: bool
) -> list[Checked]:
    """All models in turn, once the files of all were read; what cannot be measured holds up none."""
    from cli.ci_models import examine, prepare

    checked: list[Checked] = []
    for model in [prepare(model) for model in asked.models]:
        name = model.model.name
        old = before.find(name) if before else None
        record: ModelRecord | None = None
        try:
            answer, record = examine(model, old, asked.thresholds, again=again, accept=accept)
        except UnavailableError as error:
            answer = _not_measurable(name, str(error))
        answer = baselines.told(answer)
        click.echo(f"{name}: {answer.status.replace('_', ' ')}", err=True)
        checked.append((model, answer, record))
    return checked


def _not_measurable(name: str, why: str) -> ModelAnswer:
    from tuner.regressions.answer import Change, ModelAnswer

    change = Change(
        kind="error", what="measurement", regression=False, message=f"could not be measured: {why}"
    )
    return ModelAnswer(name=name, status="not_measurable", changes=(change,))


def _write(answer: CiAnswer, *, junit: Path | None, summary: Path | None) -> None:
    from cli.files import write_whole
    from tuner.regressions.junit import junit_xml
    from tuner.regressions.summary import markdown

    for target, text in ((junit, junit_xml), (summary, markdown)):
        if target:
            write_whole(target, text(answer))
