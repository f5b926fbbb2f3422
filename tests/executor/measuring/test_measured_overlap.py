"""What does a link's document say of rounds beside computation that are known?"""

from typing import Literal

import pytest

from executor.measuring.measured_overlap import overlap_of, run_side_by_side
from executor.measuring.overlap_rounds import Rounds
from executor.measuring.overlaps import Beside, Overlapped
from profiles.cluster import FitPoint, LinkFit, Transfer

SIZES = (2**12, 2**16, 2**20)
ALONE_S = 0.01


def fit(operation: Literal["p2p", "all_reduce"], latency_s: float, per_byte_s: float) -> LinkFit:
    """Links of two processes, alone."""
    transfer = Transfer(latency_s=latency_s, bandwidth_bytes_per_s=1 / per_byte_s)
    factor = 2 if operation == "all_reduce" else 1
    points = tuple(
        FitPoint(
            message_bytes=size,
            seconds=factor * latency_s + size * per_byte_s,
            spread=0.0,
            repeats=9,
        )
        for size in SIZES
    )
    return LinkFit(
        operation=operation, processes=2, transfer=transfer, residual=0.0, largest_residual=0.0, points=points
    )


FITS = {"p2p": fit("p2p", 1e-4, 1e-9), "all_reduce": fit("all_reduce", 2e-4, 2e-9)}


def messages(beside: Beside, *lost_s: float) -> list[Overlapped]:
    """Rounds that took so much longer than computation alone, by size."""
    return [
        Overlapped("inside", beside, 2, size, Rounds((ALONE_S,) * 5, (ALONE_S + lost,) * 5), (0.0, 1.0))
        for size, lost in zip(SIZES, lost_s, strict=True)
    ]


def collectives(slow_down: float, *lasted_s: float) -> list[Overlapped]:
    """Collectives that lasted so long, while computation took 1 + slow_down times its time."""
    return [
        Overlapped(
            "inside", "collective", 2, size,
            Rounds((lasted / (1 + slow_down),) * 5, (lasted,) * 5, (lasted,) * 5), (0.0, 1.0),
        )
        for size, lasted in zip(SIZES, lasted_s, strict=True)
    ]  # fmt: skip


def test_what_rounds_took_beyond_computation_is_told_apart() -> None:
    """The slow-down, lines beside computation as links have them, and what the ends of a message lose."""
    hops = [2e-4 + 3e-9 * size for size in SIZES]
    sums = [1e-3 + 4e-9 * size for size in SIZES]
    found = overlap_of(
        [
            *messages("exposed", *(6e-4 + hop for hop in hops)),
            *messages("hidden", 6e-4, 6e-4, 6e-4),
            *collectives(0.5, *sums),
        ],
        FITS,
    )
    assert (found.slow_down, found.slow_down_spread) == pytest.approx((0.5, 0.0))
    assert found.occupancy_s == pytest.approx(3e-4)
    assert found.p2p.latency_s == pytest.approx(2e-4)
    assert 1 / found.p2p.bandwidth_bytes_per_s == pytest.approx(3e-9)
    assert found.collective.latency_s == pytest.approx(5e-4)
    assert 1 / found.collective.bandwidth_bytes_per_s == pytest.approx(4e-9)
    assert found.repeats == 5


def test_two_collectives_run_side_by_side_or_one_after_another() -> None:
    """As the largest say, that take most of the time; without a measurement nobody knows."""

    def pairs(*two_s: float) -> list[Overlapped]:
        return [
            Overlapped("inside", "two", 2, size, Rounds((one_s,) * 5, (taken_s,) * 5), (0.0, 1.0))
            for size, one_s, taken_s in zip(SIZES, (1.0, 1.0, 10.0), two_s, strict=True)
        ]

    assert run_side_by_side(pairs(2.0, 2.0, 11.0))
    assert run_side_by_side(pairs(1.0, 1.0, 20.0)) is False
    assert run_side_by_side([]) is None


def test_nothing_is_faster_beside_computation() -> None:
    """Times below those alone, which noise can give, leave the link as it is and computation unslowed."""
    found = overlap_of(
        [
            *messages("exposed", -1e-3, 0.0, 1e-4),
            *messages("hidden", -1e-3, -1e-4, 0.0),
            *collectives(-0.2, 1e-6, 1e-6, 1e-6),
        ],
        FITS,
    )
    assert (found.slow_down, found.occupancy_s) == (0.0, 0.0)
    assert found.p2p.latency_s == pytest.approx(FITS["p2p"].transfer.latency_s)
    assert found.collective.latency_s == pytest.approx(FITS["all_reduce"].transfer.latency_s)
