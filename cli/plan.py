"""`chimera plan`: which configuration is best, and why?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.choices import EXPORTS
from cli.errors import DONE, NEGATIVE, InputError
from cli.options import REQUEST, with_options

if TYPE_CHECKING:
    from profiles.calibration import Calibration
    from profiles.timings import Profile
    from tuner.plan import Plan
    from tuner.request import PlanRequest

EXAMPLE = "chimera plan --model gpt2-64 --cluster piz-daint --devices 512 --mini-batch-size 512 --explain"


@click.command(epilog=f"\b\nExample:\n  {EXAMPLE}")
@with_options(REQUEST)
@click.option(
    "--explain", is_flag=True, help="Print what was rejected, memory by rank, and where numbers come from."
)
@click.option("--json", "as_json", is_flag=True, help="Print the plan as one JSON document.")
@click.option(
    "--export", "format", type=click.Choice(EXPORTS), help="Print launch flags instead of the tables."
)
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE.html", help="Write the report page.")
def plan(
    *,
    explain: bool,
    as_json: bool,
    format: str | None,
    report: Path | None,
    **asked: Any,
) -> int:
    """Choose width, depth, micro-batch size and schedule.

    Without a device, and without running anything.
    """
    used = _calibration(asked["calibration"])
    request, profile = _read({**asked, "calibration": used and used.fingerprint()})
    answer, search_s = _answer(request, profile, used)
    exported = _export(answer, format) if format else None
    if report:
        _write_report(answer, report, timelines=_timeline(request, answer, profile, calibration=used))
    if as_json:
        _print_json(answer, search_s, exported)
    elif format:
        click.echo(exported["text"] if exported else "", nl=False)
    else:
        from cli.answer import describe

        click.echo("\n".join(describe(answer, search_s, explain=explain)))
    return NEGATIVE if answer.chosen is None else DONE


def _read(asked: dict[str, Any]) -> tuple[PlanRequest, Profile | None]:
    """The request, and the profile that it refers to."""
    from cli.sources import read_cluster, read_named_model
    from tuner.request import read_request

    model, profile = read_named_model(asked["model"])
    if isinstance(model, dict) and profile is None and asked["sequence_length"] is None:
        raise InputError("--sequence-length is required with a config.json, which does not say it")
    cluster = read_cluster(asked["cluster"]) if asked["cluster"] else None
    return read_request({**asked, "model": model, "cluster": cluster}), profile


def _calibration(name: str | None) -> Calibration | None:
    from cli.sources import read_document
    from profiles.calibration import Calibration

    return None if name is None else read_document(name, Calibration)


def _answer(
    request: PlanRequest, profile: Profile | None, calibration: Calibration | None
) -> tuple[Plan, float]:
    """The plan, and the seconds that the search took (without imports and without reading files)."""
    from time import perf_counter

    from profiles import library
    from tuner.planning import answer

    start_s = perf_counter()
    found = answer(request, library, profile=profile, calibration=calibration)
    return found, perf_counter() - start_s


def _export(answer: Plan, format: str) -> dict[str, str] | None:
    """The export with its media type; None, and why on stderr, when nothing was chosen."""
    from tuner.exports import export
    from tuner.exports.frameworks import substitution

    if answer.chosen is None:
        from cli.answer import describe_failure

        click.echo("\n".join(describe_failure(answer)), err=True)
        return None
    text, media_type = export(answer, format)
    said = substitution(answer, format)
    if said:
        click.echo(said, err=True)
    return {"format": format, "media_type": media_type, "text": text}


def _timeline(
    request: PlanRequest, answer: Plan, profile: Profile | None, *, calibration: Calibration | None
) -> dict[str, Any]:
    """What the report shows over time, or why it does not, and what can be set beside it."""
    from api.reports.timeline import embedded_beside, embedded_timeline
    from profiles import library
    from tuner.error_bars import calibrated_request

    if calibration is not None:
        request = calibrated_request(request, calibration, library, profile=profile)
    shown = embedded_timeline(request, answer, library, profile=profile)
    return {"timeline": shown, "beside": embedded_beside(request, answer, library, profile=profile)}


def _write_report(answer: Plan, path: Path, *, timelines: dict[str, Any]) -> None:
    from api.reports.report import render_report
    from cli.files import write_whole

    write_whole(path, render_report(answer, standalone=True, **timelines))
    click.echo(f"Wrote the report to {path}", err=True)


def _print_json(answer: Plan, search_s: float, exported: dict[str, str] | None) -> None:
    from profiles.document import canonical_json

    document = answer.model_dump(mode="json") | {"search_s": search_s}
    if exported:
        document["export"] = exported
    click.echo(canonical_json(document))
