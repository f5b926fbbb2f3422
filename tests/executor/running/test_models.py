"""Does a pipeline learn as one process does, whatever crosses its cuts, is shared, drawn or not trained?"""

import re
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from executor.errors import ModelError
from executor.models.loss import cross_entropy
from executor.running.assembly import Settings
from executor.running.pipeline import Pipeline
from tests.executor.equivalence import Case, mini_batches, net, run_cases, sgd
from tests.executor.processes import Ranks, RanksFailedError, run_ranks
from tests.executor.running import nets
from tests.executor.running.layouts import SYNCHRONOUS, adam, check, layout, momentum

TIED = Settings(tied=nets.ENDS)
NAMES = tuple(name for name in SYNCHRONOUS if name != "dualpipe")
"""Those that take four micro-batches on four ranks."""


def words(configuration: Any, settings: Settings = TIED, **more: Any) -> Case:
    """A case of tokens, with cross entropy over those that count."""
    chosen = {"layers": nets.tied_ends, "optimizer": adam} | more
    return Case(configuration, settings, data=nets.tokens, loss=cross_entropy, **chosen)


def test_tied_ends_are_one_parameter_under_every_schedule(four: Ranks) -> None:
    """On different ranks, in four copies on two ranks (Chimera), on one rank: three steps of Adam."""
    cases = [words(layout(name, 1, 4, 4)) for name in NAMES]
    cases += [words(layout(name, 2, 2, 4)) for name in SYNCHRONOUS]
    cases += [words(layout("gpipe", 4, 1, 2)), words(layout("chimera", 1, 4, 4, pipe_pairs=2))]
    check(four, cases)


def test_tied_ends_may_be_clipped_sharded_and_recomputed(four: Ranks) -> None:
    """A norm that counts them once, shards beside them, late collectives in pieces."""
    variants = [
        Settings(tied=nets.ENDS, clip_norm=0.05),
        Settings(tied=nets.ENDS, clip_norm=0.05, optimizer_sharding="replicas", buckets=2),
        Settings(tied=nets.ENDS, sync_policy="lazy", rank_order="data_major"),
    ]
    layouts = [
        layout("chimera", 1, 4, 4, recompute="layer"),
        layout("chimera", 2, 2, 4),
        layout("zb_v", 2, 2, 4),
        layout("dapple", 1, 4, 8, recompute="stage"),
    ]
    check(four, [words(one, settings) for one in layouts for settings in variants])


def copies(rank: int, world_size: int, schedule: str) -> list[Tensor]:
    """All copies of the tied weight on this rank after three steps."""
    case = words(layout(schedule, 1, 4, 4))
    pipeline = Pipeline(
        case.layers(), case.loss(), case.configuration, optimizer=adam, settings=case.settings
    )
    pipeline.train(case.data())
    held = pipeline._assembly.held
    return [
        parameter.detach().clone()
        for one in held
        for name, parameter in one.parameters()
        if name in {"layers.0.weight", "layers.7.weight"}
    ]


@pytest.mark.parametrize(("schedule", "count"), [("dapple", 2), ("chimera", 4), ("zb_v", 2)])
def test_all_copies_of_a_tied_weight_are_equal_bit_by_bit(four: Ranks, schedule: str, count: int) -> None:
    """Two at the ends of one pipe; with two pipes four."""
    found = [copy for part in four.run(copies, schedule) for copy in part]
    assert len(found) == count
    assert all(torch.equal(copy, found[0]) for copy in found)


def test_a_weight_that_two_stages_share_must_be_said_to_be_tied(four: Ranks) -> None:
    """Or else its copies would drift apart: refused before launch, with what to write."""
    cases = [words(layout(name, 1, 4, 4), Settings()) for name in ("dapple", "chimera", "zb_v")]
    for ranks in four.run(run_cases, cases):
        for one in ranks:
            assert "ConfigurationError: layers.0.weight and layers.7.weight are one parameter" in one.refused
            assert "Settings(tied=(((0, 'weight'), (7, 'weight')),))" in one.refused


class Made(Sequence[nn.Module]):
    """Layers of which a rank has its own alone."""

    def __init__(self, layers: list[nn.Module], numbers: range) -> None:
        self._layers = {number: layers[number] for number in numbers}

    def __len__(self) -> int:
        return 8

    def __getitem__(self, number: Any) -> Any:
        """A layer that is held here."""
        return self._layers[number]


def train_made(rank: int, world_size: int) -> bool:
    """Whether layers that were made where they are held learn as one process does."""
    case = words(layout("dapple", 1, 4, 4))
    mine = Made(nets.tied_ends(), range(2 * rank, 2 * rank + 2))
    pipeline = Pipeline(mine, case.loss(), case.configuration, optimizer=adam, settings=TIED)
    return pipeline.check(pipeline.train(case.data()), case.reference()).passes("float64")


def test_a_rank_may_make_its_own_layers_alone(four: Ranks) -> None:
    """No other layer is asked for, also where ends are tied."""
    assert four.run(train_made) == [True] * 4


@pytest.mark.parametrize("recompute", ["none", "stage", "layer"])
def test_dropout_depends_neither_on_layout_nor_on_recomputation(four: Ranks, recompute: str) -> None:
    """The masks are those of one process with the same micro-batches, or halves of them."""
    options = {"layers": nets.drawing, "optimizer": sgd, "by_micro_batches": True}
    layouts = [layout(name, 1, 4, 4, recompute=recompute) for name in NAMES]
    layouts += [layout(name, 2, 2, 4, recompute=recompute) for name in SYNCHRONOUS]
    layouts += [
        layout("chimera", width, 4 // width, 8, scaling=scaling, recompute=recompute)
        for width, scaling in ((1, "halving"), (2, "halving"), (1, "doubling"))
    ]
    check(four, [words(one, Settings(seed=7), **options) for one in layouts])


def test_another_seed_draws_other_masks(two: Ranks) -> None:
    """The cases above would pass without dropout otherwise."""
    case = words(layout("gpipe", 1, 2, 2), Settings(seed=8), layers=nets.drawing, by_micro_batches=True)
    other = words(layout("gpipe", 1, 2, 2), Settings(seed=9), layers=nets.drawing, by_micro_batches=True)
    assert case.reference().losses != other.reference().losses


@pytest.mark.parametrize("recompute", ["none", "stage", "layer"])
def test_only_what_needs_a_gradient_gets_one(four: Ranks, recompute: str) -> None:
    """States, a float mask, int64 numbers and flags through four stages: the numbers arrive intact."""
    layouts = [layout(name, 1, 4, 4, recompute=recompute) for name in NAMES]
    layouts += [layout(name, 2, 2, 4, recompute=recompute) for name in ("zb_v", "chimera", "dualpipe")]
    check(four, [Case(one, layers=nets.masked, optimizer=momentum) for one in layouts])


@pytest.mark.parametrize("recompute", ["none", "layer"])
def test_an_input_that_is_ignored_for_some_micro_batches_gets_zeros(four: Ranks, recompute: str) -> None:
    """Whatever the schedule: both tensors cross a cut, and zeros come back for the one that is ignored."""
    layouts = [layout(name, 1, 4, 4, recompute=recompute) for name in NAMES]
    layouts += [layout("chimera", 1, 4, 8, scaling="halving", recompute=recompute)]
    between = {4: Settings(partition=(1, 2, 2, 3)), 8: Settings()}
    options = {"layers": nets.ignoring, "data": nets.signed, "by_micro_batches": True}
    check(four, [Case(one, between[one.stages], **options) for one in layouts])


def test_hooks_on_tensors_change_gradients_once(four: Ranks) -> None:
    """Also where the backward is split, and the layers' inputs and weights get theirs apart."""
    check(four, [Case(layout(name, 1, 4, 4), layers=nets.hooked) for name in NAMES])


@pytest.mark.parametrize("layers", [nets.frozen_first, nets.frozen_in_parts, nets.frozen, nets.bare_middle])
def test_what_is_not_trained_stays_and_the_rest_learns(four: Ranks, layers: Any) -> None:
    """A first stage that is frozen, parts of others, or all of them, and a stage without parameters."""
    names = [*NAMES, "dualpipe"]
    layouts = [layout(name, 1, 4, 8) for name in names]
    layouts += [layout(name, 1, 4, 4, recompute="layer") for name in ("zb_h1", "zb_v", "chimera")]
    sharded = Settings(optimizer_sharding="replicas", clip_norm=0.1)
    cases = [Case(one, layers=layers, optimizer=momentum) for one in layouts]
    cases += [
        Case(layout(name, 2, 2, 4), sharded, layers=layers, optimizer=adam)
        for name in ("zb_h1", "chimera", "zb_v")
    ]
    check(four, cases)


def test_a_weight_that_is_not_used_stays(four: Ranks) -> None:
    """One process has no gradient for it, and a pipeline zeros."""
    layouts = [layout("dapple", 1, 4, 4), layout("chimera", 2, 2, 4)]
    check(four, [Case(one, layers=nets.spare, optimizer=adam) for one in layouts])


def train(rank: int, world_size: int, case: Case) -> list[float]:
    """The losses of a case, whose errors end the process."""
    pipeline = Pipeline(
        case.layers(), case.loss(), case.configuration, optimizer=case.optimizer, settings=case.settings
    )
    return pipeline.train(case.data())


def test_a_shape_that_depends_on_values_is_told_before_it_leaves() -> None:
    """Both shapes, the message, and the operation; nobody gets a part of it, or garbage."""
    with pytest.raises(RanksFailedError) as caught:
        run_ranks(4, train, Case(layout("chimera", 1, 4, 2), layers=nets.by_samples))
    said = caught.value.failures[caught.value.first]
    assert re.search(r"BoundaryError: .*float64\[\d+, 16\] where float64\[48, 16\]", said)
    assert "activation of micro-batch" in said


def told(rank: int, world_size: int, cases: list[Case]) -> list[str]:
    """What is raised here by each case; a good one trains."""
    found = []
    for case in cases:
        try:
            train(rank, world_size, case)
        except (ModelError, ValueError) as error:
            found.append(f"{type(error).__name__}: {error}")
        else:
            found.append("")
    return found


def test_what_a_layer_raises_at_first_is_told_on_every_rank(four: Ranks) -> None:
    """Nobody waits for shapes that will not come, and the processes can go on with another model."""
    layouts = [layout("chimera", 1, 4, 4), layout("interleaved", 1, 4, 4)]
    cases = [Case(one, layers=nets.failing) for one in layouts] + [Case(layouts[0])]
    ranks = four.run(told, cases)
    for number, holder in ((0, 2), (1, 1)):
        said = [found[number] for found in ranks]
        assert said[holder] == "ValueError: no room for 24 samples"
        others = f"ModelError: rank {holder} could not tell the shapes"
        assert all(word.startswith(others) for rank, word in enumerate(said) if rank != holder)
    assert [found[2] for found in ranks] == [""] * 4


def drawn_apart(rank: int, world_size: int, schedule: str, width: int) -> list[tuple[str, bytes]]:
    """What this rank begins with, where every process has drawn weights of its own."""
    layers = net()
    torch.manual_seed(100 + rank)
    for layer in layers:
        nn.init.normal_(layer[0].weight)  # type: ignore[index]
    layers[-1].register_buffer("seen", torch.randn(3))
    pipeline = Pipeline(
        layers,
        Case(layout(schedule, width, world_size // width, 4)).loss(),
        layout(schedule, width, world_size // width, 4),
        optimizer=sgd,
    )
    pipeline.train(mini_batches()) if width == 2 else None
    return [
        (name, value.numpy().tobytes())
        for one in pipeline._assembly.held
        for name, value in [*one.parameters(), *one.buffers()]
        for value in [value.detach()]
    ]


@pytest.mark.parametrize(("schedule", "width"), [("chimera", 1), ("chimera", 2), ("zb_v", 2), ("dapple", 4)])
def test_replicas_are_equal_whatever_the_processes_drew(four: Ranks, schedule: str, width: int) -> None:
    """Bit by bit, at the start and after two steps."""
    first: dict[str, bytes] = {}
    for part in four.run(drawn_apart, schedule, width):
        for name, value in part:
            assert first.setdefault(name, value) == value, name
    assert len(first) == 17
