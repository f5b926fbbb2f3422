"""Are the gradients of a stage cut into pieces that are no larger than asked, and alike on all ranks?"""

import pytest

from executor.models.loss import mean_squared_error
from executor.running.assembly import Assembly, Settings
from executor.running.bucketing import MOST_BUCKETS, MOST_BYTES, buckets_of
from executor.running.training import Training
from tests.executor.equivalence import mini_batches, net, sgd
from tests.executor.processes import run_ranks
from tuner.configuration import Configuration

UNEVEN = Configuration("chimera", width=1, depth=2, micro_batch_size=24, micro_batches=4)


def test_the_number_of_buckets_follows_from_their_size() -> None:
    """The fewest that are small enough, within limits."""
    sizes = (0, 1, MOST_BYTES, MOST_BYTES + 1, 10**12)
    assert [buckets_of(size) for size in sizes] == [
        1,
        1,
        1,
        2,
        MOST_BUCKETS,
    ]
    assert buckets_of(100, at_least=3, most_bytes=100) == 3


def trained(rank: int, world_size: int) -> list[tuple[int, int, list[float]]]:
    """Buckets, collectives and losses, for several sizes; the first stage has seven of eight layers."""
    found = []
    for most in (None, 2000, 10**6):
        settings = Settings(partition=(7, 1), bucket_bytes=most)
        assembly = Assembly(net(), mean_squared_error(), UNEVEN, optimizer=sgd, settings=settings)
        training = Training(assembly)
        losses = [loss for batch in mini_batches(3) for loss in training.losses(training.run([batch]))]
        found.append((assembly.buckets, assembly.synchronizer.wire.collectives, losses))
        assembly.close()
    return found


def test_all_ranks_cut_as_the_largest_stage_needs() -> None:
    """7·(16·16 + 16)·8 bytes in pieces of 2,000 are eight, whatever a rank holds; losses stay the same."""
    for plain, cut, whole in run_ranks(2, trained):
        assert (plain[0], cut[0], whole[0]) == (1, 8, 1)
        assert (plain[1], cut[1], whole[1]) == (3 * 2, 3 * 2 * 8, 3 * 2)
        assert cut[2] == pytest.approx(plain[2], abs=1e-12)
