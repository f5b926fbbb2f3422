"""Do weights depend on how a model is laid out, cut, synchronised, sharded or clipped?"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from executor.running.assembly import Settings
from tests.executor.equivalence import Case, assert_equal, mini_batches, run_cases
from tests.executor.processes import Ranks
from tests.executor.running.layouts import SYNCHRONOUS, adam, adamw, check, layout, momentum

EVEN = ("chimera", "gems", "chimera_split", "dualpipe")
"""Schedules of two directions, on an even number of ranks."""


def three_steps() -> list[tuple[Tensor, Tensor]]:
    """Three mini-batches of 96."""
    return mini_batches(3)


def uneven() -> list[tuple[Tensor, Tensor]]:
    """Two mini-batches of 37 samples."""
    return mini_batches(2, 37)


def test_every_schedule_takes_three_steps_on_four_ranks(four: Ranks) -> None:
    """Eight micro-batches: nothing hangs on gloo, and all is as in one process."""
    names = [name for name in SYNCHRONOUS if name != "dualpipe"]
    check(four, [Case(layout(name, 1, 4, 8), data=three_steps) for name in [*names, "dualpipe"]])


@pytest.mark.parametrize("micro_batches", [1, 2, 3, 4])
def test_micro_batches_may_be_as_few_as_ranks_or_fewer(four: Ranks, micro_batches: int) -> None:
    """N <= D = 4: equal to one process, or refused before anything is sent."""
    cases = [Case(layout(name, 1, 4, micro_batches)) for name in SYNCHRONOUS]
    found = four.run(run_cases, cases)
    refused = {case.configuration.schedule for case, one in zip(cases, found[0], strict=True) if one.refused}
    assert refused == ({"dualpipe"} | ({"interleaved"} if micro_batches % 4 else set()))
    for ranks in found:
        assert all("ScheduleError" in one.refused for one in ranks if one.refused)
    kept = [number for number, one in enumerate(found[0]) if not one.refused]
    assert_equal([cases[n] for n in kept], [[ranks[n] for n in kept] for ranks in found])


def test_an_odd_number_of_ranks_is_a_layout_too(three: Ranks) -> None:
    """D=3, where stages have 3, 3 and 2 layers, N = 1, 3 and 4; W=3 without a pipeline."""
    one_way = [name for name in SYNCHRONOUS if name not in EVEN]
    cases = [Case(layout(name, 1, 3, n)) for name in one_way for n in (1, 3, 4)]
    cases += [Case(layout("gpipe", 3, 1, 2), optimizer=adam)]
    legal = [
        c for c in cases if c.configuration.schedule != "interleaved" or c.configuration.micro_batches == 3
    ]
    check(three, legal)


def test_samples_need_not_divide_among_micro_batches(four: Ranks) -> None:
    """37 samples over 2 to 8 micro-batches, of one group or two: each counts by its samples."""
    cases = [Case(layout(name, 1, 4, 4), data=uneven) for name in SYNCHRONOUS if name != "dualpipe"]
    cases += [Case(layout(name, 2, 2, 4), data=uneven) for name in SYNCHRONOUS]
    cases += [Case(layout("chimera", 1, 4, 8, scaling="doubling"), data=uneven)]
    check(four, cases)


def test_stages_need_not_be_equal(four: Ranks) -> None:
    """Partitions with one to five layers in a stage."""
    uneven_cuts: list[tuple[int, ...]] = [(1, 2, 4, 1), (5, 1, 1, 1), (1, 1, 1, 5), (2, 3, 2, 1)]
    names = ("gpipe", "dapple", "gems", "chimera", "zb_h1", "chimera_split")
    cases = [Case(layout(name, 1, 4, 4), Settings(partition=cut)) for name in names for cut in uneven_cuts]
    chunks = Settings(partition=(1, 3, 2, 2))
    check(four, cases + [Case(layout(name, 2, 2, 4), chunks) for name in ("interleaved", "zb_v")])


def test_collectives_may_be_early_late_and_in_pieces(four: Ranks) -> None:
    """Every policy with 1 to 3 buckets, with neighbours in either order."""
    ways = [
        Settings(sync_policy="lazy"),
        Settings(sync_policy="eager", buckets=3, rank_order="data_major"),
        Settings(sync_policy="eager_opt", buckets=2, rank_order="data_major"),
    ]
    places = (("chimera", 1), ("chimera", 2), ("zb_v", 2), ("dapple", 4), ("gpipe", 2))
    check(four, [Case(layout(name, width, 4 // width, 4), how) for name, width in places for how in ways])


@pytest.mark.parametrize("optimizer", [momentum, adam, adamw])
def test_optimizer_state_may_be_sharded(
    four: Ranks, optimizer: Callable[[Any], torch.optim.Optimizer]
) -> None:
    """Over the replicas of Chimera's pipes, of W groups, and of both; clipped and in buckets as well."""
    plain = Settings(optimizer_sharding="replicas")
    pieces = Settings(optimizer_sharding="replicas", buckets=3, clip_norm=0.1)
    cases = [
        Case(layout(name, width, 4 // width, 4, **more), how, optimizer=optimizer, data=three_steps)
        for name, width, more in (
            ("chimera", 1, {}),
            ("chimera", 1, {"pipe_pairs": 2}),
            ("chimera", 2, {}),
            ("zb_h1", 2, {}),
            ("dapple", 4, {}),
        )
        for how in (plain, pieces)
    ]
    check(four, cases)


def test_clipping_takes_the_norm_over_all_stages_and_replicas_once(four: Ranks) -> None:
    """Every schedule, one group and two: the coefficient is that of one process."""
    clipped = Settings(clip_norm=0.1)
    names = [name for name in SYNCHRONOUS if name != "dualpipe"]
    cases = [Case(layout(name, w, 4 // w, 4), clipped, data=three_steps) for name in names for w in (1, 2)]
    check(four, cases)


def test_four_pipes_are_a_layout_too(four: Ranks) -> None:
    """f=2 on four ranks, with every stage on every rank."""
    check(four, [Case(layout("chimera", 1, 4, n, pipe_pairs=2), optimizer=adam) for n in (2, 4, 7, 8)])


def recomputed() -> list[Case]:
    """Every schedule with both recomputations."""
    kinds = ("stage", "layer")
    names = [name for name in SYNCHRONOUS if name != "dualpipe"]
    return [Case(layout(name, 1, 4, 4, recompute=kind)) for name in names for kind in kinds]


def test_activations_may_be_recomputed_under_every_schedule(four: Ranks) -> None:
    """Also those that split the backward."""
    halves = [
        Case(layout("chimera", 1, 4, 8, scaling="halving", recompute=kind)) for kind in ("stage", "layer")
    ]
    check(four, recomputed() + halves)
