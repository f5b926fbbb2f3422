"""What is predicted of jobs that share their ranks?"""

from dataclasses import replace

import pytest

from profiles import library
from tests.tuner.factories import make_plan
from tuner.configuration import Configuration
from tuner.crossover import cross_over, emulated_jobs, sharer_of
from tuner.errors import RequestError, TooLongError
from tuner.plan import Plan

BERT = {"model": "bert-48", "cluster": "piz-daint", "devices": 32, "mini_batch_size": 512}


def planned(**options: object) -> Plan:
    """Chimera for bert-48 on 32 devices."""
    return make_plan(**(BERT | {"schedules": ["chimera"]} | options))


@pytest.mark.parametrize("share", [0.0, 1 / 6, 1 / 3, 1 / 2, 2 / 3])
def test_two_equal_jobs_gain_what_the_abstract_model_says(share: float) -> None:
    """min(1/(1 − φ), 2)."""
    found = cross_over(emulated_jobs(2, exposed_share=share, compute_s=0.3))
    assert [job.exposed_share for job in found.jobs] == pytest.approx([share, share], abs=1e-9)
    assert found.predicted_speedup == pytest.approx(min(1 / (1 - share), 2.0))
    assert found.closed_form_speedup == pytest.approx(found.predicted_speedup)


def test_unequal_jobs_wait_for_the_longest_or_for_all_computation() -> None:
    """The period is max(ΣC, max(C + M)), in whatever order the jobs are named."""
    jobs = emulated_jobs(1, exposed_share=0.75, compute_s=0.1) + emulated_jobs(
        2, exposed_share=0.1, compute_s=0.2
    )
    assert cross_over(jobs).period_s == pytest.approx(0.5)
    assert cross_over(jobs[::-1]).period_s == pytest.approx(0.5)
    assert cross_over(jobs[:2]).period_s == pytest.approx(0.4)


def test_two_pipelined_jobs_of_a_plan_gain_and_their_memory_is_added() -> None:
    """Never slower than one after the other; the reserve is counted once."""
    job = sharer_of("bert", planned(), library)
    found = cross_over([job, job])
    assert 1.0 < found.predicted_speedup <= 2.0
    assert job.plan is not None
    assert job.plan.chosen is not None
    alone = job.plan.chosen.memory[0]
    assert found.memory is not None
    assert found.memory.ranks_bytes[0] == 2 * alone.total_bytes - alone.reserve_bytes
    assert found.memory.fits == (max(found.memory.ranks_bytes) <= found.memory.capacity_bytes)


def test_jobs_that_cannot_share_are_refused_in_numbers() -> None:
    """One job, different ranks, no flush, a plan without a choice, and too many operations."""
    job = sharer_of("a", planned(width=8, depth=4), library)
    other = sharer_of("b", planned(width=4, depth=8), library)
    with pytest.raises(RequestError, match="1 jobs cannot share"):
        cross_over([job])
    with pytest.raises(RequestError, match="a has W=8 x D=4; b has W=4 x D=8"):
        cross_over([job, other])
    with pytest.raises(RequestError, match="never waits"):
        cross_over([job, replace(job, configuration=job.configuration.with_(schedule="pipedream"))])
    with pytest.raises(RequestError, match="nothing fits"):
        sharer_of("c", planned(model="gpt2-64", devices=1), library)
    long = Configuration("dapple", width=8, depth=4, micro_batch_size=1, micro_batches=10_000)
    with pytest.raises(TooLongError, match="1,440,000 forwards"):
        cross_over([replace(job, configuration=long)] * 2)
