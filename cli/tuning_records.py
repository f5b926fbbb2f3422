"""Where are the trials of a study kept? In a measurement document that grows with each of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from executor.tuning.bench import Attempt
    from profiles.measurement import Measurements
    from tuner.trial_records import Task
    from tuner.trials import Option, Trial

_SOURCE = "Trials of chimera tune: medians of undisturbed iterations."


class Records:
    """A document at a path, or nothing where no path is given."""

    def __init__(self, path: Path | None, task: Task) -> None:
        self._path, self._task = path, task
        self._document = _read(path) if path and path.exists() else None

    def earlier(self, options: Sequence[Option]) -> tuple[Trial, ...]:
        """The trials of this study that are there already."""
        from tuner.trial_records import trials_of

        if self._document is None:
            return ()
        rows = trials_of(self._document.measurements, self._task, options)
        others = len(self._document.measurements) - len(rows)
        click.echo(f"{len(rows)} trials are in {self._path} already", err=True)
        if others:
            click.echo(
                f"note: {others} other measurements there stay as they are, and are not used", err=True
            )
        return rows

    def add(self, attempt: Attempt) -> None:
        """Write the document anew with one trial more; one that gave no answer is none."""
        from profiles.measurement import Measurements
        from tuner.trial_records import measurement_of

        found = measurement_of(attempt.row, self._task, peaks_bytes=attempt.peaks_bytes)
        if self._path is None or found is None:
            return
        before = self._document
        self._document = Measurements(
            source=before.source if before else _SOURCE,
            measurements=(*(before.measurements if before else ()), found),
        )
        write_whole(self._path, self._document.to_json() + "\n")


def _read(path: Path) -> Measurements:
    from cli.sources import read_document
    from profiles.measurement import Measurements

    return read_document(str(path), Measurements)
