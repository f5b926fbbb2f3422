"""Which links does a cluster get from timings that are known?"""

import pytest

from executor.measuring.links import MeasuredLinks, Timing
from executor.measuring.measured_cluster import cluster_of, notes_of
from tuner.link_fit import LinkFitError
from tuner.network import Network

SIZES = (2**12, 2**16, 2**20, 2**24)
LATENCY_S = {"inside": 1e-4, "between": 1e-3}
PER_BYTE = {"inside": 1e-9, "between": 1e-8}


def timings(where: str, processes: int) -> list[Timing]:
    """What the formulas of the planner give, three repeats each."""
    made = []
    factors = {"p2p": (1, 1), "all_reduce": (2, 2), "all_gather": (1, 1), "reduce_scatter": (1, 1)}
    steps, volume = (processes - 1).bit_length(), (processes - 1) / processes
    for operation, (alpha, beta) in factors.items():
        for size in SIZES:
            one_way = operation == "p2p"
            latency = LATENCY_S[where] * (1 if one_way else alpha * steps)
            seconds = latency + PER_BYTE[where] * size * (1 if one_way else beta * volume)
            members = 2 if one_way else processes
            made.append(Timing(where, operation, members, size, (seconds,) * 3, (0.0, 1.0)))  # type: ignore[arg-type]
    return made


def measured(*parts: tuple[str, int], nodes: int, undisturbed: float | None = 1.0) -> MeasuredLinks:
    found = tuple(timing for where, processes in parts for timing in timings(where, processes))
    return MeasuredLinks(found, nodes, 8, undisturbed)


def test_links_inside_and_between_nodes_are_told_apart() -> None:
    """The planner's network gives the timings back."""
    cluster = cluster_of(measured(("inside", 4), ("between", 2), nodes=2), name="own", devices=4)
    assert cluster.node.link is not None
    for where, link in (("inside", cluster.node.link), ("between", cluster.link)):
        for transfer in (link.p2p, link.collective):
            assert transfer.latency_s == pytest.approx(LATENCY_S[where])
            assert 1 / transfer.bandwidth_bytes_per_s == pytest.approx(PER_BYTE[where])
        assert all(fit.transfer.latency_s == pytest.approx(LATENCY_S[where]) for fit in link.fits or ())
    network = Network(cluster, width=4, depth=1, rank_order="pipe_major")
    whole = [each for each in timings("inside", 4) if each.operation == "all_reduce"][-1]
    assert float(network.all_reduce_s(whole.message_bytes, 1)) == pytest.approx(whole.seconds[0])  # type: ignore[arg-type]


def test_one_node_is_the_whole_cluster() -> None:
    """There is nothing to be between; nodes of one process have nothing inside."""
    alone = cluster_of(measured(("inside", 2), nodes=1), name="own", devices=3)
    assert (alone.max_devices, alone.link.fits) == (3, None)
    assert alone.link.source.startswith("There is one node")
    spread = cluster_of(measured(("between", 2), nodes=2), name="own", devices=1)
    assert (spread.node.link, spread.max_devices) == (None, 2)
    assert spread.link.p2p.latency_s == pytest.approx(LATENCY_S["between"])


@pytest.mark.parametrize(("undisturbed", "noted"), [(1.0, ""), (0.5, "not quiet"), (None, "not watched")])
def test_a_loaded_machine_is_noted(undisturbed: float | None, noted: str) -> None:
    """For people, and in the document."""
    found = measured(("inside", 2), nodes=1, undisturbed=undisturbed)
    assert noted in " ".join(notes_of(found))
    assert bool(notes_of(found)) == bool(noted)
    link = cluster_of(found, name="own", devices=2).node.link
    assert link is not None
    assert noted in link.source


def test_times_without_a_slope_make_no_cluster() -> None:
    """A link is not made up."""
    flat = tuple(Timing("inside", "p2p", 2, size, (1.0,), (0.0, 1.0)) for size in SIZES)
    with pytest.raises(LinkFitError):
        cluster_of(MeasuredLinks(flat, 1, 2, 1.0), name="own")
