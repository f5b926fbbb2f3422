"""`chimera score`: how near do predictions come to measurements?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.errors import DONE, InputError

if TYPE_CHECKING:
    from profiles.calibration import Calibration
    from profiles.measurement import Measurements
    from profiles.timings import Profile
    from tuner.inputs import Library
    from tuner.score import Score

EXAMPLE = "chimera score chimera-sc21 --calibrate-on chimera-sc21 --schedules chimera,dapple,gems,gpipe"


@click.command(epilog=f"\b\nExample:\n  {EXAMPLE}")
@click.argument("file", metavar="FILE")
@click.option(
    "--calibrate-on",
    multiple=True,
    metavar="FILE",
    help="Fit the cluster's software on these measurements first; may be given more than once.",
)
@click.option("--calibration", metavar="FILE", help="Use a calibration that was saved.")
@click.option(
    "--save-calibration", type=click.Path(path_type=Path), metavar="FILE", help="Write the calibration."
)
@click.option(
    "--schedules", metavar="A,B", show_default="all", help="Only the measurements of these schedules."
)
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="FILE",
    help="A profile of a measured model that is no preset (`chimera profile`).",
)
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    metavar="FILE",
    help="A cluster of the measurements that is no preset, or has links that were measured.",
)
@click.option(
    "--capacity-gb", type=click.FloatRange(0, 1e9, min_open=True), metavar="GB",
    show_default="the data sheet's", help="Say whether each fits in so much memory, in 1e9 bytes.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "--report", type=click.Path(path_type=Path), metavar="FILE.html",
    help="Write predicted over measured as a page.",
)  # fmt: skip
def score(
    *,
    file: str,
    calibrate_on: tuple[str, ...],
    calibration: str | None,
    save_calibration: Path | None,
    schedules: str | None,
    profiles: tuple[str, ...],
    clusters: tuple[str, ...],
    capacity_gb: float | None,
    as_json: bool,
    report: Path | None,
) -> int:
    """Predict every measurement of FILE and compare.

    FILE is a document of measurements, or the name of one that is shipped.
    """
    from cli.sources import read_document
    from profiles import library
    from profiles.cluster import ClusterProfile
    from profiles.timings import Profile
    from tuner.own_clusters import OwnClusters
    from tuner.score import score as score_document

    known = [read_document(name, Profile) for name in profiles]
    shelf = OwnClusters(library, [read_document(name, ClusterProfile) for name in clusters])
    document = read_measurements(file)
    used = _calibration(calibrate_on, calibration, profiles=known, shelf=shelf)
    if save_calibration:
        _save(used, save_calibration)
    found = score_document(
        document,
        shelf,
        calibration=used,
        schedules=_named(schedules),
        profiles=known,
        capacity_bytes=_bytes(capacity_gb),
    )
    _require_rows(found)
    if report:
        _write_report(found, report)
    if as_json:
        click.echo(found.to_json())
    else:
        from cli.scored import describe

        click.echo("\n".join(describe(found, used)))
    return DONE


def read_measurements(name: str) -> Measurements:
    """The shipped document of this name, or the file's."""
    from cli.sources import read_document
    from profiles import library
    from profiles.measurement import Measurements

    if name in library.names("measurements"):
        return library.load_measurements(name)
    return read_document(name, Measurements)


def _calibration(
    calibrate_on: tuple[str, ...], calibration: str | None, *, profiles: list[Profile], shelf: Library
) -> Calibration | None:
    from cli.sources import read_document
    from profiles.calibration import Calibration
    from tuner.calibration import calibrate

    if calibrate_on and calibration:
        raise InputError("--calibrate-on makes a calibration and --calibration reads one: give one of them")
    if calibration:
        return read_document(calibration, Calibration)
    if not calibrate_on:
        return None
    return calibrate([read_measurements(name) for name in calibrate_on], shelf, profiles=profiles)


def _require_rows(found: Score) -> None:
    """Raise InputError where there are measurements and nothing can be said of any of them."""
    if found.skipped and not (found.count or found.asynchronous.count or found.oom_count):
        raise InputError(f"none of the measurements can be predicted: {found.skipped[0]}")


def _bytes(capacity_gb: float | None) -> float | None:
    from math import isnan

    if capacity_gb is None:
        return None
    if isnan(capacity_gb):
        raise InputError("--capacity-gb must be a number of GB, such as 16")
    return capacity_gb * 1e9


def _named(schedules: str | None) -> list[str] | None:
    """The schedules; raises InputError for one that does not exist."""
    from tuner.schedule_names import SCHEDULES, called_here

    if schedules is None:
        return None
    names = [name.strip() for name in schedules.split(",") if name.strip()]
    unknown = [name for name in names if name not in SCHEDULES]
    if unknown or not names:
        told = (
            f"unknown schedule {unknown[0][:60]!r}{called_here(unknown[0])}"
            if unknown
            else "no schedule is named"
        )
        raise InputError(f"{told}; choose from {', '.join(SCHEDULES)}")
    return names


def _save(calibration: Calibration | None, path: Path) -> None:
    from cli.files import write_whole

    if calibration is None:
        raise InputError("--save-calibration needs --calibrate-on: there is no calibration to write")
    write_whole(path, calibration.to_json() + "\n")
    click.echo(f"Wrote the calibration to {path}", err=True)


def _write_report(found: Score, path: Path) -> None:
    from api.reports.fidelity import render_fidelity
    from cli.files import write_whole

    write_whole(path, render_fidelity(found))
    click.echo(f"Wrote the report to {path}", err=True)
