"""Is every layer in exactly one stage, and is the slowest stage as fast as can be?"""

from collections.abc import Sequence
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.errors import RequestError
from tuner.partition import balanced_counts, even_counts

LAWS = settings(max_examples=100, deadline=None, derandomize=True)

SECONDS = st.floats(0.001, 10)
OUTER = st.one_of(st.just(0.0), SECONDS, st.floats(10, 1000))


def stage_seconds(
    block_s: Sequence[float], counts: Sequence[int], *, first_s: float, last_s: float
) -> list[float]:
    """Time of each stage, summed block by block."""
    seconds, start = [], 0
    for count in counts:
        seconds.append(sum(block_s[start : start + count]))
        start += count
    seconds[0] += first_s
    seconds[-1] += last_s
    return seconds


def best_bottleneck(block_s: Sequence[float], depth: int, *, first_s: float, last_s: float) -> float:
    """The slowest stage of the best of all cuts, by trying them."""
    blocks = len(block_s)
    return min(
        max(
            stage_seconds(
                block_s, [b - a for a, b in pairwise((0, *cuts, blocks))], first_s=first_s, last_s=last_s
            )
        )
        for cuts in combinations(range(1, blocks), depth - 1)
    )


@st.composite
def blocks_and_depth(draw: st.DrawFn, *, most: int = 12) -> tuple[list[float], int]:
    """Times of the blocks, sometimes all equal, and a depth that they allow."""
    count = draw(st.integers(1, most))
    times = draw(
        st.one_of(
            st.lists(SECONDS, min_size=count, max_size=count),
            st.lists(st.integers(1, 3).map(float), min_size=count, max_size=count),
            SECONDS.map(lambda seconds: [seconds] * count),
        )
    )
    return times, draw(st.integers(1, count))


@LAWS
@given(case=blocks_and_depth(), first_s=OUTER, last_s=OUTER)
def test_the_slowest_stage_is_the_best_of_all_cuts(
    case: tuple[list[float], int], first_s: float, last_s: float
) -> None:
    """Against every cut, heavy embeddings and heads included."""
    block_s, depth = case
    counts = balanced_counts(block_s, depth, first_s=first_s, last_s=last_s)
    assert sum(counts) == len(block_s)
    assert len(counts) == depth
    assert min(counts) >= 1
    slowest = max(stage_seconds(block_s, counts, first_s=first_s, last_s=last_s))
    best = best_bottleneck(block_s, depth, first_s=first_s, last_s=last_s)
    assert slowest == pytest.approx(best, rel=1e-6)


@LAWS
@given(case=blocks_and_depth(most=200), first_s=OUTER, last_s=OUTER)
def test_every_block_is_in_one_stage(case: tuple[list[float], int], first_s: float, last_s: float) -> None:
    """At least one in each, however many there are."""
    block_s, depth = case
    for counts in (
        balanced_counts(block_s, depth, first_s=first_s, last_s=last_s),
        even_counts(len(block_s), depth),
    ):
        assert len(counts) == depth
        assert sum(counts) == len(block_s)
        assert min(counts) >= 1


@LAWS
@given(blocks=st.integers(1, 130), data=st.data(), seconds=SECONDS)
def test_equal_blocks_give_stages_that_differ_by_at_most_one(
    blocks: int, data: st.DataObject, seconds: float
) -> None:
    """Without embedding and head both partitions are as even as can be."""
    depth = data.draw(st.integers(1, blocks))
    for counts in (balanced_counts([seconds] * blocks, depth), even_counts(blocks, depth)):
        assert max(counts) - min(counts) <= 1
        assert sum(counts) == blocks


def test_38_blocks_over_8_stages() -> None:
    """Six stages of five and two of four."""
    assert sorted(balanced_counts([0.1] * 38, 8)) == [4, 4, 5, 5, 5, 5, 5, 5]
    assert even_counts(38, 8) == (5, 5, 5, 5, 5, 5, 4, 4)


def test_a_heavy_head_leaves_the_last_stage_few_blocks() -> None:
    """A head as long as three blocks takes the place of three."""
    assert balanced_counts([1.0] * 13, 4, last_s=3.0) == (4, 4, 4, 1)
    assert balanced_counts([1.0] * 13, 4, first_s=3.0) == (1, 4, 4, 4)


@LAWS
@given(blocks=st.integers(3, 60), data=st.data(), head=st.floats(70, 1000), embedding=st.floats(0, 1))
def test_beside_a_head_heavier_than_all_blocks_the_other_stages_are_even(
    blocks: int, data: st.DataObject, head: float, embedding: float
) -> None:
    """The last stage keeps one block, and the rest is not piled up in front, where most memory is needed."""
    depth = data.draw(st.integers(3, blocks))
    *others, last = balanced_counts([1.0] * blocks, depth, first_s=embedding, last_s=head)
    assert last == 1
    assert max(others) - min(others) <= 1 + (embedding > 0)


def test_no_time_at_all_is_cut_evenly() -> None:
    """Blocks that cost nothing are no reason to fail."""
    counts = balanced_counts([0.0] * 7, 3)
    assert sum(counts) == 7
    assert min(counts) >= 1


@pytest.mark.parametrize("depth", [0, 5, -1])
def test_a_depth_beyond_the_blocks_is_an_error_with_numbers(depth: int) -> None:
    """A stage without a block does not exist."""
    told = rf"depth {depth} .* the model has 4"
    with pytest.raises(RequestError, match=told):
        balanced_counts([1.0] * 4, depth)
    with pytest.raises(RequestError, match=told):
        even_counts(4, depth)
