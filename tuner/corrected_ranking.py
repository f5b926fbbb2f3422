"""Which configuration is best now that some were run? The model's ranking as the trials correct it.

The fastest measured comes first: what was measured stands before what is only believed. The others follow by
their corrected times. What ran out of memory, or needs too much by what the trials showed, is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tuner.choice import Choice
from tuner.configuration import Configuration
from tuner.correction import LEVEL, correct
from tuner.memory_correction import corrected_bytes
from tuner.options import judged, option_of
from tuner.plan import ConfigurationDocument, ErrorBar, Rejected
from tuner.ranking import Ranked, Ranking
from tuner.rejection import gigabytes
from tuner.trials import Option, Trial, TrialStatus, measured
from tuner.twins import distinct, first_names


@dataclass(frozen=True)
class CorrectedRanking:
    """What the trials make of the configurations that fit by the model."""

    ranked: tuple[Ranked, ...]
    """The fastest measured first, then by corrected time; those that were not judged last."""
    refused: tuple[Rejected, ...]
    """What the model would run and the trials say does not fit."""
    bars: dict[Configuration, ErrorBar]

    def of(self, ranked: Ranked) -> ErrorBar | None:
        """The error bar of a configuration; None where nothing is known of it."""
        return self.bars.get(ranked.choice.configuration)


def correct_ranking(ranking: Ranking, choices: Sequence[Choice], trials: Sequence[Trial]) -> CorrectedRanking:
    """`choices` fit by the model, in the order of equation 1; the trials were predicted by the same model."""
    known = judged(ranking, choices)
    first = first_names(known)
    options = [option_of(each) for each in distinct(known, first)]
    place = {option.configuration: position for position, option in enumerate(options)}
    rows = [
        replace(trial, configuration=first.get(trial.configuration, trial.configuration)) for trial in trials
    ]
    corrected, needed = correct(rows, options), corrected_bytes(rows, options).tolist()
    full = {trial.configuration for trial in rows if trial.status is TrialStatus.OUT_OF_MEMORY}
    fitting, refused, bars = list[Ranked](), list[Rejected](), dict[Configuration, ErrorBar]()
    for each in known:
        configuration = each.choice.configuration
        at = place[first[configuration]]
        ran_out = first[configuration] in full
        if ran_out or needed[at] > options[at].capacity_bytes:
            refused.append(_refuse(option_of(each), needed[at], ran=ran_out))
            continue
        factor = float(corrected.expected_s[at]) / options[at].predicted_s
        fitting.append(Ranked(each.choice, each.simulated, factor))
        low_s, high_s = float(corrected.low_s[at]), float(corrected.high_s[at])
        bars[configuration] = ErrorBar(low_s=low_s, high_s=high_s, coverage=LEVEL)
    return CorrectedRanking(
        ranked=(*_winner_first(fitting, trials), *_not_judged(choices, known)),
        refused=tuple(refused),
        bars=bars if measured(trials) else {},
    )


def _winner_first(ranked: Sequence[Ranked], trials: Sequence[Trial]) -> list[Ranked]:
    fastest = min(measured(trials), key=lambda trial: trial.measured_s or 0.0, default=None)
    return sorted(
        ranked,
        key=lambda each: (
            fastest is None or each.choice.configuration != fastest.configuration,
            each.iteration_s,
            each.choice.configuration,
        ),
    )


def _not_judged(choices: Sequence[Choice], known: Sequence[Ranked]) -> list[Ranked]:
    """In the model's order: nothing was learnt of them, and all that were judged are faster by equation 1."""
    return [Ranked(choice, None) for choice in choices[len(known) :]]


def _refuse(option: Option, needed_bytes: float, *, ran: bool) -> Rejected:
    if ran:
        reason = (
            f"it ran out of memory in a trial, although {gigabytes(option.needed_bytes)} of "
            f"{gigabytes(option.capacity_bytes)} were predicted: use a smaller micro-batch, or recomputation"
        )
    else:
        reason = (
            f"by what the trials showed it needs {gigabytes(needed_bytes)} of "
            f"{gigabytes(option.capacity_bytes)}, where {gigabytes(option.needed_bytes)} were predicted: use "
            "a smaller micro-batch, or recomputation"
        )
    configuration = ConfigurationDocument(**option.configuration.document())
    return Rejected(configuration=configuration, reason=reason, kind="memory")
