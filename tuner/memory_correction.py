"""How much more memory do configurations need than the model says, by the trials so far?

log(needed / predicted) is learnt as times are (`tuner.correction`), from measured peaks and from trials
that ran out of memory. Of the latter only a bound is known: they needed more than there was. Such a row
counts, at its bound, where the others say less of it (a censored regression, by repeated imputation).
"""

from collections.abc import Sequence

import numpy as np

from tuner.configuration import Configuration
from tuner.effects import Known, features
from tuner.schedules.scheme import Floats
from tuner.sparse_rows import Rows, inverse, product
from tuner.trials import Option, Trial, TrialStatus, in_order

_SPREAD = 0.03
"""Relative, of what one configuration needs beyond what it has in common with others."""
_BEYOND = 0.02
"""What ran out of memory needed more than there was, by about so much."""
_ROUNDS = 8


def corrected_bytes(trials: Sequence[Trial], options: Sequence[Option]) -> Floats:
    """Memory that each option is now thought to need [option], on its fullest rank.

    What ran out of memory, and the same at larger micro-batches, needs more than there is: it is at least
    `capacity_bytes`·(1 + 2 %). What ran needs what was measured, or at most what there is.
    """
    places = {option.configuration: position for position, option in enumerate(options)}
    rows = [trial for trial in in_order(trials) if trial.configuration in places and _tells(trial)]
    needed = np.array([option.needed_bytes for option in options])
    if not rows:
        return needed
    every = features([Known(option.configuration) for option in options])
    told = every.take(np.array([places[trial.configuration] for trial in rows]))
    targets = np.array([_told(trial, options[places[trial.configuration]]) for trial in rows])
    needed = needed * np.exp(every.times(_weights(told, targets, rows)))
    return _within_bounds(needed, rows, options)


def _tells(trial: Trial) -> bool:
    return trial.status is TrialStatus.OUT_OF_MEMORY or (trial.ran and trial.peak_bytes is not None)


def _weights(told: Rows, target: Floats, rows: Sequence[Trial]) -> Floats:
    """Weights of the features, by ridge regression; bounds that hold anyway are left out."""
    bounded = np.array([trial.status is TrialStatus.OUT_OF_MEMORY for trial in rows])
    counts = np.ones(len(rows), dtype=bool)
    weights: Floats = np.zeros(told.columns)
    alone = _SPREAD**2 * np.eye(told.columns)
    for _ in range(_ROUNDS):
        used = counts.astype(np.float64)
        weights = product(inverse(told.gram(used) + alone), told.across(used * target))
        counting = ~bounded | (told.times(weights) < target + 1e-9)
        if (counting == counts).all():
            break
        counts = counting
    return weights


def _told(trial: Trial, option: Option) -> float:
    """Logarithm of what it needed over the prediction."""
    if trial.status is TrialStatus.OUT_OF_MEMORY:
        return float(np.log(option.capacity_bytes * (1 + _BEYOND) / option.needed_bytes))
    return float(np.log((trial.peak_bytes or option.needed_bytes) / option.needed_bytes))


def _within_bounds(needed: Floats, rows: Sequence[Trial], options: Sequence[Option]) -> Floats:
    """What is certain: measured peaks, and that a larger micro-batch needs no less."""
    peaks = {trial.configuration: trial.peak_bytes for trial in rows if trial.ran}
    least: dict[tuple[object, ...], int] = {}
    for trial in rows:
        if trial.status is TrialStatus.OUT_OF_MEMORY:
            kind = _kind(trial.configuration)
            size = trial.configuration.micro_batch_size
            least[kind] = min(size, least.get(kind, size))
    bounded = needed.copy()
    for position, option in enumerate(options):
        ran = option.configuration
        if ran in peaks:
            bounded[position] = peaks[ran] or needed[position]
        elif ran.micro_batch_size >= least.get(_kind(ran), ran.micro_batch_size + 1):
            bounded[position] = max(needed[position], option.capacity_bytes * (1 + _BEYOND))
    return bounded


def _kind(configuration: Configuration) -> tuple[object, ...]:
    """All but the sizes of micro-batches."""
    ran = configuration
    return ran.schedule, ran.width, ran.depth, ran.recompute, ran.scaling, ran.pipe_pairs, ran.chunks
