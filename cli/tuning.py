"""How is a tuning put together? Measure what is not known, plan, try, and plan again with what was learnt."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from cli.errors import UnavailableError
from cli.files import check_writable, write_whole
from cli.launching import take_launcher
from cli.progress import clear, show
from cli.quantities import seconds
from cli.tuned import one_line
from cli.tuned_subject import Subject, may_fit, measured, read_subject
from cli.tuning_records import Records

if TYPE_CHECKING:
    from executor.launchers.launcher import Launcher
    from executor.trials.trial import Trial as Run
    from executor.tuning.bench import Attempt
    from executor.tuning.session import Session
    from tuner.inputs import PlanInputs
    from tuner.plan import Plan
    from tuner.refinement import Proposal
    from tuner.request import PlanRequest
    from tuner.trials import Option
    from tuner.tuning import Tuning

FILES = ("output", "report", "export_optuna", "save_profile", "save_cluster")


@dataclass(frozen=True)
class Tuned:
    """What a tuning gave."""

    document: Tuning
    search_s: float
    """Of the last plan, as `chimera plan` tells it."""


@dataclass(frozen=True)
class _Study:
    """A request that can be tried."""

    subject: Subject
    request: PlanRequest
    """With the one compression that its trials have."""
    inputs: PlanInputs
    options: tuple[Option, ...]
    before: Plan


def tune(asked: dict[str, Any]) -> Tuned:
    """Do all that the options of `chimera tune` ask for; see cli.errors for what it raises."""
    from tuner.request import PlanRequest

    request = {name: asked.pop(name) for name in PlanRequest.model_fields if name in asked}
    files: dict[str, Path | None] = {name: asked.pop(name) for name in FILES}
    _check(files)
    trying = {**asked, "partition": asked["slurm_partition"]}
    launcher = take_launcher(trying)
    subject = read_subject(request, profile=asked["profile"], here=launcher.is_here)
    if launcher.is_here and may_fit(subject):
        subject = measured(subject, sizes=asked["micro_batch_sizes"], budget_s=asked["budget"])
    _save(subject, files)
    study = _plan(subject)
    session, fastest = _try(study, asked, launcher=launcher, output=files["output"])
    start_s = perf_counter()
    document = _document(study, session)
    search_s = perf_counter() - start_s
    if files["report"]:
        _write_report(study, document, files["report"], fastest=fastest)
    if files["export_optuna"]:
        _write_journal(study, session, files["export_optuna"])
    return Tuned(document, search_s)


def _check(files: dict[str, Path | None]) -> None:
    """Before anything is measured: what it needs, and where its results go."""
    if find_spec("torch") is None:
        raise UnavailableError(
            "trials need torch: pip install 'chimera-tuner[executor]'; chimera plan needs none of it"
        )
    if files["export_optuna"] and find_spec("optuna") is None:
        raise UnavailableError("--export-optuna needs Optuna: pip install 'chimera-tuner[refine]'")
    for path in filter(None, files.values()):
        check_writable(path)


def _save(subject: Subject, files: dict[str, Path | None]) -> None:
    """Keep what was measured, so that the next tuning need not measure again."""
    if files["save_profile"] and subject.profile:
        write_whole(files["save_profile"], subject.profile.to_json() + "\n")
        click.echo(f"Wrote the profile to {files['save_profile']}", err=True)
    if files["save_cluster"] and isinstance(subject.cluster, dict):
        write_whole(files["save_cluster"], subject.cluster["document"].to_json() + "\n")
        click.echo(f"Wrote the cluster to {files['save_cluster']}", err=True)


def _plan(subject: Subject) -> _Study:
    from profiles import library
    from tuner.compressed_plans import settled
    from tuner.inputs import gather
    from tuner.options import options_of
    from tuner.planning import answer
    from tuner.request import read_request

    asked, profile = read_request(subject.request()), subject.profile
    before = answer(asked, library, profile=profile)
    request = settled(asked, before)
    inputs = gather(request, library, profile=profile)
    if before.compression:
        click.echo(f"Compression: {before.compression.summary}", err=True)
    options = options_of(request, library, profile=profile, search=request.search) if before.chosen else ()
    if options:
        best = options[0]
        click.echo(
            f"{len(options):,} configurations fit; the model puts {best.configuration} first, "
            f"{seconds(best.predicted_s)} an iteration",
            err=True,
        )
    return _Study(subject, request, inputs, options, before)


def _try(
    study: _Study, asked: dict[str, Any], *, launcher: Launcher, output: Path | None
) -> tuple[Session, Run | None]:
    """Make the trials; with them the run of the fastest, where it was one of these."""
    from executor.tuning.bench import Bench, How
    from executor.tuning.session import Session
    from tuner.refinement import Budget
    from tuner.trial_records import Task

    subject, options = study.subject, study.options
    how = How(
        launcher=launcher,
        launcher_name=asked["launcher"],
        device=subject.device,
        timeout_s=asked["timeout"],
        memory_limit_bytes=asked["memory_limit"],
        seed=asked["seed"],
        tell=_tell,
    )
    records = Records(output, Task.of(study.inputs, model=subject.name, launcher=how.launcher_name))
    session = Session(
        Bench(study.inputs, subject.runs, profile=subject.profile, how=how),
        options,
        records.earlier(options),
        budget=Budget(trials=asked["trials"], device_seconds=asked["device_seconds"]),
        seed=asked["seed"],
        sampling=_has_sampler() if options else False,
    )
    return session, _watch(session, records, most=asked["trials"], output=output) if options else None


def _has_sampler() -> bool:
    """Whether Optuna is there; says so where it is not."""
    if find_spec("optuna") is not None:
        return True
    _tell(
        "note: without Optuna (pip install 'chimera-tuner[refine]') trials are chosen by expected "
        "improvement alone"
    )
    return False


def _watch(session: Session, records: Records, *, most: int, output: Path | None) -> Run | None:
    """Go through the trials, keep and tell each; the run of the fastest of all rows."""
    from tuner.tuning import tried_trial

    fastest: Attempt | None = None

    def begin(number: int, proposal: Proposal) -> None:
        show(number - 1, most, f"running {proposal.configuration}")

    try:
        for attempt in session.attempts(begin):
            records.add(attempt)
            told = f"{attempt.row.configuration}: {one_line(tried_trial(attempt.row))}"
            _tell(f"{len(session.rows)}/{most} {told}")
            times = [row.measured_s for row in session.rows if row.measured_s is not None]
            if attempt.row.measured_s is not None and attempt.row.measured_s <= min(times):
                fastest = attempt
    except KeyboardInterrupt:
        kept = f"they are in {output}, and the same command goes on from there" if output else "-o keeps them"
        _tell(f"Interrupted after {len(session.rows)} trials: {kept}")
        raise
    clear()
    return fastest.run if fastest else None


def _tell(text: str) -> None:
    """A line on stderr, where a bar may stand."""
    clear()
    click.echo(text, err=True)


def _document(study: _Study, session: Session) -> Tuning:
    from profiles import library
    from tuner.compressed_plans import as_asked
    from tuner.planning import answer
    from tuner.tuning import tuning

    after = answer(study.request, library, profile=study.subject.profile, trials=session.rows)
    return tuning(
        as_asked(study.before, after),
        study.options,
        session.rows,
        before=study.before,
        stopped=session.stopped,
    )


def _write_report(study: _Study, document: Tuning, path: Path, *, fastest: Run | None) -> None:
    from api.reports.report import render_report
    from api.reports.timeline import embedded, embedded_beside, embedded_timeline, simulated_beside
    from profiles import library

    asked, profile = study.request, study.subject.profile
    timeline = embedded_timeline(asked, document, library, profile=profile)
    beside = embedded_beside(asked, document, library, profile=profile)
    measured_timeline = fastest.measured if fastest else None
    if measured_timeline is not None:
        beside = [*simulated_beside(document, timeline), *beside]
        timeline = embedded(measured_timeline)
    page = render_report(
        document,
        standalone=True,
        timeline=timeline,
        measured_timeline=measured_timeline is not None,
        beside=beside,
    )
    write_whole(path, page)
    click.echo(f"Wrote the report to {path}", err=True)


def _write_journal(study: _Study, session: Session, path: Path) -> None:
    from tuner.optuna_journal import journal

    write_whole(path, journal(session.rows, study.options))
    click.echo(f"Wrote the study of Optuna to {path}. Next: optuna-dashboard {path}", err=True)
