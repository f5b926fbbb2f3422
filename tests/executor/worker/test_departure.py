"""Does a worker leave when it is asked to, and no earlier?"""

import pytest

from executor.worker.departure import DepartedError, Departure


def test_an_idle_worker_waits_no_longer() -> None:
    """Neither what it waits for now nor what comes next."""
    departure = Departure(drain_s=100)
    departure.sleep(0)
    departure.ask()
    assert departure.asked
    assert not departure.at_once
    with pytest.raises(DepartedError):
        departure.sleep(60)


def test_a_worker_with_a_job_goes_on_until_it_is_asked_again() -> None:
    """What it waits for then, such as an answer about its job, it still waits for."""
    departure = Departure(drain_s=100)
    departure.at_work = True
    departure.ask()
    departure.sleep(60)  # woken at once by what it was asked
    departure.sleep(0)
    assert not departure.at_once
    departure.ask()
    assert departure.at_once
    departure.sleep(0)


def test_a_job_may_not_go_on_for_longer_than_it_is_given() -> None:
    """With nothing to drain, asking once is enough."""
    departure = Departure(drain_s=0)
    departure.ask()
    assert departure.at_once
