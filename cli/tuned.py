"""How is a study told to people? The choice, what was tried, and what it taught."""

from collections.abc import Iterator

from cli.answer import configuration, describe_failure
from cli.compressions import describe_compressions
from cli.explanation import provenance
from cli.quantities import gigabytes, percent, seconds, table
from tuner.plan import ConfigurationDocument
from tuner.tuning import TriedTrial, Tuning

_WORDS = {"ok": "", "noisy": "the machine was not quiet"}


def describe(tuning: Tuning) -> Iterator[str]:
    """Lines for a terminal."""
    if tuning.chosen is None:
        yield from describe_failure(tuning)
        return
    yield from _choice(tuning)
    if tuning.compression:
        yield ""
        yield from describe_compressions(tuning.compression)
    yield ""
    yield from _trials(tuning)
    yield ""
    yield from _taught(tuning)
    yield provenance(tuning)
    yield _next(tuning)


def one_line(trial: TriedTrial) -> str:
    """What became of one trial."""
    if trial.measured is None:
        return f"{_ended(trial)}: {trial.message}" if trial.message else _ended(trial)
    off = _signed(trial.predicted / trial.measured - 1)
    told = f"{seconds(trial.measured)} measured, {seconds(trial.predicted)} predicted, {off}"
    return f"{told} ({_ended(trial)})" if _ended(trial) else told


def _choice(tuning: Tuning) -> Iterator[str]:
    chosen = tuning.chosen
    if chosen is None:
        return
    if tuning.winner is None:
        yield f"Nothing was measured. The model would run {configuration(chosen)}."
        return
    took = min(trial.measured for trial in tuning.trials if trial.measured is not None)
    yield f"Run {configuration(chosen)}."
    samples = chosen.micro_batch_size * chosen.micro_batches * chosen.width
    yield (
        f"  measured    {seconds(took)} an iteration, {samples / took:,.1f} samples/s, "
        f"{samples / took * tuning.model.sequence_length:,.0f} tokens/s"
    )
    bar = chosen.predicted.error_bar
    if bar:
        yield (
            f"  calibrated  {seconds(chosen.predicted.iteration_s)}, {percent(bar.coverage)} sure: "
            f"{seconds(bar.low_s)} to {seconds(bar.high_s)}"
        )
    yield (
        f"  memory      {gigabytes(chosen.peak_memory_bytes)} of {gigabytes(tuning.cluster.memory_bytes)} "
        "expected on the fullest rank"
    )
    if tuning.model_choice is not None and tuning.model_choice != tuning.winner:
        yield f"  model       would have run {_words(tuning.model_choice)}"


def _trials(tuning: Tuning) -> Iterator[str]:
    yield "Trials, fastest first:"
    order = sorted(
        tuning.trials, key=lambda trial: (trial.measured is None, trial.measured or trial.predicted)
    )
    header = ("", "schedule", "W", "D", "B", "N", "recompute", "predicted", "measured", "off by", "")
    yield from table(header, [_row(place, trial) for place, trial in enumerate(order, 1)])


def _row(place: int, trial: TriedTrial) -> tuple[str, ...]:
    ran, measured = trial.configuration, trial.measured
    off = "" if measured is None else _signed(trial.predicted / measured - 1)
    return (
        str(place), _schedule(ran), str(ran.width), str(ran.depth), str(ran.micro_batch_size),
        str(ran.micro_batches), str(ran.recompute), seconds(trial.predicted),
        "" if measured is None else seconds(measured), off, _ended(trial),
    )  # fmt: skip


def _taught(tuning: Tuning) -> Iterator[str]:
    error = tuning.model_error
    if error.before is not None and error.after is not None:
        yield (
            f"The model was off by {percent(error.before)} on average; corrected by the trials it is by "
            f"{percent(error.after)}."
        )
    yield f"Measuring every configuration would have taken {tuning.trials_saved:,} trials more."
    if tuning.stopped:
        yield f"Stopped: {tuning.stopped}."


def _next(tuning: Tuning) -> str:
    if tuning.winner is None:
        return (
            "Next: read why the trials ended so; allow more with --timeout or --memory-limit, or try again."
        )
    best, chosen = min(tuning.candidates, key=lambda each: each.predicted.iteration_s), tuning.chosen
    compressed = chosen is not None and chosen.compression != "none"
    kept = "" if compressed else " for chimera score"
    told = f"Next: --report FILE.html shows all of it; -o FILE keeps the trials{kept}"
    if chosen is not None and best.predicted.iteration_s < 0.98 * chosen.predicted.iteration_s:
        gain = chosen.predicted.iteration_s / best.predicted.iteration_s - 1
        return (
            f"{told}. {configuration(best)} was not tried and may be {percent(gain)} faster: allow more "
            "--trials."
        )
    return f"{told}."


def _ended(trial: TriedTrial) -> str:
    return _WORDS.get(trial.status, trial.status.replace("_", " "))


def _schedule(ran: ConfigurationDocument) -> str:
    pairs = ran.pipe_pairs or 1
    scaling = "" if ran.scaling == "direct" else str(ran.scaling)
    return ", ".join(filter(None, [str(ran.schedule), scaling, f"{2 * pairs} pipes" if pairs > 1 else ""]))


def _words(ran: ConfigurationDocument) -> str:
    told = f"{_schedule(ran)} W={ran.width} D={ran.depth} B={ran.micro_batch_size}"
    return told if ran.recompute == "none" else f"{told}, recompute {ran.recompute}"


def _signed(share: float) -> str:
    return f"{100 * share:+.1f} %"
