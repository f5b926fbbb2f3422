"""With what are models compared, and where does what is accepted go? A file, a revision, or a service."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cli.ci_service import CiService
    from tuner.regressions.answer import ModelAnswer
    from tuner.regressions.manifest import Manifest
    from tuner.regressions.records import Baseline, ModelRecord


@dataclass
class Baselines:
    """The baseline of a manifest."""

    asked: Manifest
    manifest: Path
    service: CiService
    file: Path | None
    """Of the baseline, or what stands in for the service; None where nothing does."""
    in_service: bool
    against: str | None
    name: str
    missing: bool = False
    """The service did not answer, and no file stands in: what is new cannot be told."""

    def read(self, *, accept: bool) -> Baseline | None:
        """What was accepted last; None where nothing was."""
        if self.against is not None:
            from cli.ci_against import baseline_at

            return baseline_at(self.against, self.manifest)
        if self.in_service:
            found = self.service.baseline(self.asked.models)
            if found is not None:
                return found
        stored = _read(self.file, accept=accept) if self.file else None
        if self.file and stored is None and not accept and not self.in_service:
            click.echo(f"note: there is no baseline {self.file.name}: whatever is found is new", err=True)
        if self.in_service and not accept:
            self.missing = stored is None
            self.name = self.name if stored is None or self.file is None else self.file.name
        return stored

    def told(self, answer: ModelAnswer) -> ModelAnswer:
        """The answer, which is not new where the baseline could not be read."""
        from tuner.regressions.answer import Change

        if not self.missing or answer.status != "new":
            return answer
        change = Change(
            kind="baseline",
            what="baseline",
            regression=False,
            message="nothing to compare with: the baseline could not be read from the service",
        )
        return answer.model_copy(update={"status": "not_comparable", "changes": (change,)})

    def accept(self, before: Baseline | None, records: Sequence[ModelRecord]) -> None:
        """Write the new records; what could not be measured keeps its old one."""
        from cli.files import write_whole
        from tuner.regressions.records import write_baseline

        if self.file is None:
            return
        found = {record.name: record for record in records}
        names = [model.name for model in self.asked.models]
        kept = [found.get(name) or (before.find(name) if before else None) for name in names]
        document = write_baseline(tuple(record for record in kept if record))
        write_whole(self.file, _readable(document) + "\n")
        count = len(document.models)
        models = f"{count} model{'s' * (count != 1)}"
        click.echo(f"Wrote the baseline of {models} to {self.file.name}: commit it", err=True)


def choose(
    asked: Manifest,
    manifest: Path,
    *,
    named: str | None,
    against: str | None,
    accept: bool,
    patience_s: float,
) -> Baselines:
    """The baseline that the command or else the manifest names."""
    from cli.ci_origin import origin
    from cli.ci_service import CiService
    from tuner.regressions.manifest import SERVICE

    in_service = (named or asked.baseline) == SERVICE
    file: Path | None = None
    if named is not None and not in_service:
        file = Path(named).resolve()
    elif asked.file is not None:
        file = (manifest.parent / asked.file).resolve()
    stored = SERVICE if in_service or file is None else file.name
    return Baselines(
        asked=asked,
        manifest=manifest,
        service=CiService(origin(asked.project, manifest.resolve().parent), patience_s),
        file=file,
        in_service=in_service,
        against=against,
        name=stored if accept or against is None else against,
    )


def _readable(document: Baseline) -> str:
    """In lines, since it is kept in a repository and looked at in reviews; where it is long, in one."""
    from profiles.document import MAX_DOCUMENT_BYTES

    text = document.to_json()
    lines = json.dumps(json.loads(text), indent=1)
    return lines if len(lines) < MAX_DOCUMENT_BYTES else text


def _read(path: Path, *, accept: bool) -> Baseline | None:
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
