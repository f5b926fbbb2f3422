"""Do four stages with two groups, and eight stages, behave as smaller layouts do?"""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from executor.models.loss import mean_squared_error
from executor.running.assembly import Settings
from executor.running.pipeline import Pipeline
from tests.executor.equivalence import Case, net
from tests.executor.processes import Ranks
from tests.executor.running import nets
from tests.executor.running.layouts import adam, check, layout
from tests.executor.running.test_models import words
from tuner.configuration import Configuration

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def eight() -> Iterator[Ranks]:
    """Eight processes."""
    with Ranks(8) as ranks:
        yield ranks


def test_four_stages_in_two_groups_learn_as_one_process(eight: Ranks) -> None:
    """Clipped by the norm of the whole model, tied, sharded; replicas counted once."""
    names = ("chimera", "dapple", "zb_h1")
    clipped = Settings(clip_norm=0.1)
    sharded = Settings(clip_norm=0.1, optimizer_sharding="replicas", buckets=2, rank_order="data_major")
    cases = [Case(layout(name, 2, 4, 8), clipped, optimizer=adam) for name in names]
    cases += [Case(layout("chimera", 2, 4, n), sharded, optimizer=adam) for n in (4, 8)]
    cases += [words(layout("chimera", 2, 4, 4)), words(layout("dapple", 2, 4, 4))]
    cases += [Case(layout("chimera", 2, 4, 8, pipe_pairs=2)), Case(layout("chimera", 4, 2, 4))]
    check(eight, cases)


def test_eight_stages_learn_as_one_process(eight: Ranks) -> None:
    """A layer in each; as many micro-batches, fewer, and more."""
    names = ("chimera", "dapple", "zb_h1", "gems")
    cases = [Case(layout(name, 1, 8, n)) for name in names for n in (2, 8, 9)]
    check(eight, [*cases, Case(layout("chimera", 1, 8, 16, pipe_pairs=4), optimizer=adam)])


def state_and_groups(
    rank: int, world_size: int, configuration: Configuration
) -> tuple[dict[str, Tensor], list[list[int]]]:
    """The whole model before any step on process 0, and the calls of new_group here."""
    calls: list[list[int]] = []
    real: Any = dist.new_group

    def recorded(ranks: list[int], **options: Any) -> Any:
        calls.append(ranks)
        return real(ranks, **options)

    setattr(dist, "new_group", recorded)  # noqa: B010 - the checker knows its signature
    try:
        pipeline = Pipeline(net(), mean_squared_error(), configuration, optimizer=adam)
    finally:
        setattr(dist, "new_group", real)  # noqa: B010
    return pipeline.full_state(), calls


@pytest.mark.parametrize(
    ("width", "depth", "pairs"), [(1, 8, 1), (2, 4, 1), (2, 4, 2), (4, 2, 1), (1, 8, 4), (8, 1, 1)]
)
def test_groups_and_initial_weights_are_the_same_everywhere(
    eight: Ranks, width: int, depth: int, pairs: int
) -> None:
    """Every rank makes the same groups in one order; the state dict does not depend on the layout."""
    schedule = "chimera" if depth > 1 else "gpipe"
    found = eight.run(state_and_groups, layout(schedule, width, depth, 4, pipe_pairs=pairs))
    assert all(calls == found[0][1] for _, calls in found)
    expected = {
        f"layers.{n}.{name}": p for n, layer in enumerate(net()) for name, p in layer.named_parameters()
    }
    assert list(found[0][0]) == list(expected)
    assert all(torch.equal(value, expected[name]) for name, value in found[0][0].items())


def test_models_that_gave_trouble_run_on_eight_ranks(eight: Ranks) -> None:
    """Masks and numbers across seven cuts, and frozen stages."""
    cases = [Case(layout(name, 1, 8, 4), layers=nets.masked) for name in ("dapple", "chimera", "zb_h1")]
    cases += [Case(layout(name, 1, 8, 8), layers=nets.frozen_in_parts) for name in ("chimera", "zb_h1")]
    check(eight, cases)
