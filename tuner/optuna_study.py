"""What would Optuna try next? Its study, made anew from our rows, and the points that its TPE sampler draws.

Optuna is a function here: nothing is kept between two calls, and the seed is an argument. The date of its
trials is no clock's. Tree-structured Parzen estimators: Bergstra et al., NeurIPS 2011; what needs more
memory than there is counts as worse than whatever fits.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from math import log2
from typing import Any, Self

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.samplers import TPESampler
from optuna.storages import BaseStorage, InMemoryStorage
from optuna.trial import FrozenTrial, TrialState

from tuner.configuration import Configuration
from tuner.schedules.scheme import Floats
from tuner.trials import Trial, TrialStatus, in_order

NAME = "chimera"

_STATES = {
    TrialStatus.QUEUED: TrialState.RUNNING,
    TrialStatus.RUNNING: TrialState.RUNNING,
    TrialStatus.OK: TrialState.COMPLETE,
    TrialStatus.NOISY: TrialState.COMPLETE,
    TrialStatus.OUT_OF_MEMORY: TrialState.COMPLETE,
    TrialStatus.FAILED: TrialState.FAIL,
    TrialStatus.TIMED_OUT: TrialState.FAIL,
}
_SOME_TIME = datetime(2000, 1, 1)  # noqa: DTZ001
"""Optuna wants one, without a zone; none is known here."""


@dataclass(frozen=True)
class Belief:
    """What is expected of a configuration that was not tried."""

    configuration: Configuration
    expected_s: float


class _Row(FrozenTrial):
    """A trial that nobody changes, so that a storage need not copy what it holds."""

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        return copy(self)


class _Sampler(TPESampler):
    """Every trial has the parameters of one space, so which they have in common need not be looked for."""

    def __init__(self, space: Space, *, seed: int) -> None:
        super().__init__(seed=seed, n_startup_trials=2)
        self._whole = {name: each for name, each in space.distributions.items() if not each.single()}

    def infer_relative_search_space(
        self,
        study: optuna.Study,  # noqa: ARG002
        trial: FrozenTrial,  # noqa: ARG002
    ) -> dict[str, BaseDistribution]:
        """The whole space."""
        return self._whole


class Space:
    """The parameters that configurations are told apart by: one of a few variants, and two sizes."""

    def __init__(self, configurations: Sequence[Configuration]) -> None:
        self._configurations = sorted(set(configurations))
        self.distributions: Mapping[str, BaseDistribution] = {
            "variant": CategoricalDistribution(sorted({_variant(each) for each in self._configurations})),
            "depth": _range([each.depth for each in self._configurations]),
            "micro_batch_size": _range([each.micro_batch_size for each in self._configurations]),
        }

    def point(self, configuration: Configuration) -> dict[str, Any]:
        """The values of one configuration."""
        return {
            "variant": _variant(configuration),
            "depth": log2(configuration.depth),
            "micro_batch_size": log2(configuration.micro_batch_size),
        }

    def distances(self, point: Mapping[str, Any], wanted: Sequence[Configuration]) -> Floats:
        """Doublings between a point and configurations, and 4 more for another variant [configuration]."""
        points = [self.point(each) for each in wanted]
        return np.array(
            [
                abs(each["depth"] - point["depth"])
                + abs(each["micro_batch_size"] - point["micro_batch_size"])
                + 4.0 * (each["variant"] != point["variant"])
                for each in points
            ]
        )


def make_study(
    trials: Sequence[Trial],
    space: Space,
    *,
    seed: int,
    beliefs: Sequence[Belief] = (),
    over: Mapping[Configuration, float] | None = None,
    storage: BaseStorage | None = None,
    name: str = NAME,
) -> optuna.Study:
    """The study of these rows; `beliefs` join them as if they had been measured.

    `over` is what a configuration needs over what there is, minus 1, where the memory is known or estimated.
    Pass Optuna's storage of a database to look at the study with optuna-dashboard; it is in memory else.
    Raises optuna.exceptions.DuplicatedStudyError where that holds a study of this name.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    rows = [_row(trial, space, over or {}) for trial in in_order(trials)]
    rows += [_believed(belief, space) for belief in beliefs]
    # Optuna gives old trials less weight: ours have no age.
    shuffled = np.random.default_rng(seed).permutation(len(rows))
    study = optuna.create_study(
        study_name=name,
        storage=InMemoryStorage() if storage is None else storage,
        sampler=_Sampler(space, seed=seed),
        direction="minimize",
    )
    study.add_trials([rows[position] for position in shuffled])
    return study


def draw(study: optuna.Study, space: Space, count: int) -> list[dict[str, Any]]:
    """`count` points that the sampler proposes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return [study.ask(dict(space.distributions)).params for _ in range(count)]


def _row(trial: Trial, space: Space, over: Mapping[Configuration, float]) -> FrozenTrial:
    row = _frozen(trial.configuration, space, state=_STATES[trial.status], value=_value(trial))
    row.set_user_attr("status", trial.status.value)
    row.set_user_attr("predicted_s", trial.predicted_s)
    if trial.status is TrialStatus.OUT_OF_MEMORY:
        row.set_constraint("memory", max(over.get(trial.configuration, 0.0), 1e-3))
    elif trial.ran:
        row.set_constraint("memory", min(over.get(trial.configuration, 0.0), 0.0))
    return row


def _value(trial: Trial) -> float | None:
    """Seconds of an iteration; of what ran out of memory any, since its constraint is read first."""
    return trial.predicted_s if trial.status is TrialStatus.OUT_OF_MEMORY else trial.measured_s


def _believed(belief: Belief, space: Space) -> FrozenTrial:
    return _frozen(belief.configuration, space, state=TrialState.COMPLETE, value=belief.expected_s)


def _frozen(
    configuration: Configuration, space: Space, *, state: TrialState, value: float | None
) -> FrozenTrial:
    return _Row(
        number=-1,
        trial_id=-1,
        state=state,
        value=value,
        datetime_start=_SOME_TIME,
        datetime_complete=_SOME_TIME if state.is_finished() else None,
        params=space.point(configuration),
        distributions=dict(space.distributions),
        user_attrs={},
        system_attrs={},
        intermediate_values={},
    )


def _variant(configuration: Configuration) -> str:
    """All that is chosen beside the sizes."""
    told = (
        configuration.scaling,
        f"{2 * configuration.pipe_pairs} pipes",
        f"recompute {configuration.recompute}",
    )
    return ", ".join((configuration.schedule, *told))


def _range(sizes: Sequence[int]) -> FloatDistribution:
    return FloatDistribution(log2(min(sizes)), log2(max(sizes)))
