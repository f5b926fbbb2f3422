"""How is a score told to people? The errors first, then where they are worst, then what was learnt."""

from collections.abc import Iterator, Sequence

from cli.quantities import gigabytes, percent, table
from profiles.calibration import Calibration, CalibrationSet
from tuner.score import ErrorSummary, Score, ScoredRow

SHOWN_ROWS = 8
_WRONG = {"refused_but_ran": "refused, but ran", "accepted_but_ran_out": "accepted, but ran out of memory"}


def describe(score: Score, calibration: Calibration | None) -> Iterator[str]:
    """Lines for a terminal."""
    yield from _headline(score)
    yield ""
    if score.rows or score.asynchronous.rows:
        yield from _errors(score)
    if score.rows:
        yield ""
        yield from _worst(score.rows)
    yield from _memory(score)
    yield from _regret(score)
    for each in calibration.sets if calibration else ():
        yield ""
        yield from _learnt(each)
    for reason in score.skipped[:SHOWN_ROWS]:
        yield f"Skipped: {reason}"
    for note in score.notes[:SHOWN_ROWS]:
        yield f"Note: {note}"


def _headline(score: Score) -> Iterator[str]:
    if score.mape is None or score.max is None or score.bias is None:
        yield "No measurement of a schedule with a flush has a time to compare."
        return
    applies = any(row.low is not None for row in score.rows)
    how = "calibrated" if applies else "from data sheets and the cluster's own coefficients"
    if score.calibration and not applies:
        yield "The calibration was made on other clusters, and says nothing of these measurements."
    yield (
        f"{score.count} measured iterations, predicted {how}: mean error {percent(score.mape)}, "
        f"largest {percent(score.max)}, bias {score.bias:+.1%}."
    )
    if applies and score.uncalibrated.mape is not None:
        seen = " The calibration has seen these measurements." if score.in_sample else ""
        yield f"Without the calibration the mean error is {percent(score.uncalibrated.mape)}.{seen}"
    if score.error_bar_coverage is not None:
        yield f"{percent(score.error_bar_coverage)} of them lie in their error bars."


def _errors(score: Score) -> Iterator[str]:
    rows = [(group.model, group.schedule, *_figures(group)) for group in score.groups]
    if score.asynchronous.count:
        rows.append(("all", "without a flush, apart", *_figures(score.asynchronous)))
    yield from table(("model", "schedule", "rows", "mean", "largest", "bias"), rows)


def _figures(summary: ErrorSummary) -> tuple[str, str, str, str]:
    return (
        str(summary.count),
        f"{summary.mape or 0:.1%}",
        f"{summary.max or 0:.1%}",
        f"{summary.bias or 0:+.1%}",
    )


def _worst(rows: Sequence[ScoredRow]) -> Iterator[str]:
    yield "Furthest off:"
    worst = sorted(rows, key=lambda row: -abs(row.error))[:SHOWN_ROWS]
    yield from table(
        ("model", "configuration", "predicted", "measured", "error"),
        [
            (row.model, described(row), f"{row.predicted:.4g}", f"{row.measured:.4g}", f"{row.error:+.1%}")
            for row in worst
        ],
    )


def described(row: ScoredRow) -> str:
    """The configuration of a row in a few words."""
    ran = row.configuration
    words = f"{ran['schedule']} W={ran['width']} D={ran['depth']} B={ran['micro_batch_size']}"
    extras = [ran["scaling"]] if ran["scaling"] != "direct" else []
    extras += [f"recompute {ran['recompute']}"] if ran["recompute"] != "none" else []
    return ", ".join([words, *map(str, extras)])


def _memory(score: Score) -> Iterator[str]:
    if score.memory_mape is not None and score.memory_bias is not None:
        yield ""
        yield (
            f"Peak memory of {score.memory_count} measurements: mean error {percent(score.memory_mape)}, "
            f"bias {score.memory_bias:+.1%}."
        )
    if score.memory_min_mape is not None and score.memory_min_bias is not None:
        yield (
            f"Of the emptiest rank, which decides nothing: {percent(score.memory_min_mape)}, "
            f"bias {score.memory_min_bias:+.1%}."
        )
    if score.oom_agreement is not None:
        yield f"Whether they fit is said rightly of {percent(score.oom_agreement)} of {score.oom_count}."
    for row in score.memory_rows:
        if row.verdict in _WRONG:
            ran = row.configuration
            yield (
                f"  {_WRONG[row.verdict]}: {row.model} {ran['schedule']} W={ran['width']} D={ran['depth']} "
                f"B={ran['micro_batch_size']}, predicted {gigabytes(row.predicted_max_bytes)} of "
                f"{gigabytes(row.capacity_bytes)}"
            )


def _regret(score: Score) -> Iterator[str]:
    if score.mean_regret is not None and score.exact_best is not None:
        yield (
            f"Picking by prediction in {len(score.alternatives)} groups of measured alternatives costs "
            f"{score.mean_regret:.2%} on average; the pick is the best in {percent(score.exact_best)}."
        )


def _learnt(each: CalibrationSet) -> Iterator[str]:
    kind = "with a flush" if each.synchronous else "without a flush"
    yield (
        f"{each.cluster}, {each.model or 'all models'}, schedules {kind}: from {each.measurements} "
        f"measurements, mean error of those left out {percent(each.mean_error)}"
    )
    yield from table(
        ("coefficient", "value", "standard error", ""),
        [
            (
                coefficient.name,
                f"{coefficient.value:.4g}",
                "" if coefficient.standard_error is None else f"{coefficient.standard_error:.2g}",
                coefficient.reason or "",
            )
            for coefficient in each.coefficients
        ],
    )
    for coefficient in each.coefficients:
        if coefficient.helped_by:
            yield f"  To tell {coefficient.name}, measure {coefficient.helped_by}."
