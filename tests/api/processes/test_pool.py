"""Is what is computed elsewhere the same, and does the pool outlive whatever ends its processes?"""

import json
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Event
from typing import Any

import pytest

from api.computing import crossovers, fits, plans, reports, timelines, trials
from api.computing.asked import Asked, as_texts
from api.computing.result import Result
from api.computing.wire import ComputationError
from api.processes.computing import Here
from api.processes.pool import DiedProblem, Pool
from api.web import deadline
from api.web.deadline import Deadline
from api.web.problems import TimeoutProblem, UnavailableProblem
from profiles import library
from profiles.calibration import Calibration
from profiles.errors import UnknownNameError
from profiles.timings import Profile
from tests.api.conftest import BERT, NO_FIT, TINY
from tests.api.life.pool import profile
from tests.api.test_calibrations import measured as measurements
from tuner.errors import UnsupportedModelError
from tuner.request import read_request

PATIENCE_S = 120.0
HERE = Here()


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    """Two places."""
    made = Pool(at_once=2)
    yield made
    made.close()


@pytest.fixture
def single() -> Iterator[Pool]:
    """One place, and a process that is ready there."""
    made = Pool(at_once=1)
    made.begin()
    yield made
    made.close()
    assert not made.processes


def asked(**options: Any) -> Asked:
    """The texts of a request."""
    return as_texts(read_request(TINY | options), None, None)


def stop(pool: Pool) -> int:
    """Have the only process of a pool do nothing, whatever it is asked."""
    (process,) = pool.processes
    os.kill(process, signal.SIGSTOP)
    return process


def goes_on(pool: Pool) -> bool:
    """Whether the pool answers."""
    return bool(pool.call(plans.plan, asked()).facts["outcome"] == "chosen")


@pytest.fixture
def waiting() -> Iterator[Callable[[Pool], Future[Result]]]:
    """Asks a pool for a plan in another thread, and returns when that waits for the answer."""

    def ask(pool: Pool) -> Future[Result]:
        answer = threads.submit(pool.call, plans.plan, asked())
        while not answer.running() and not answer.done():
            Event().wait(0.01)
        Event().wait(0.1)
        return answer

    with ThreadPoolExecutor(1) as threads:
        yield ask


def test_answers_are_those_of_this_process_byte_for_byte(pool: Pool) -> None:
    """Plans of presets, configurations, clusters, profiles and calibrations; all else that is computed."""
    cluster = library.load_cluster("piz-daint").model_dump(mode="json")
    config = dict(library.load_model_preset("tiny-gpt").config)
    measured = Profile.from_value(profile())
    rows = json.dumps(measurements())
    fitted = Calibration.model_validate_json(pool.call(fits.fit, [rows], []).content)
    questions = [
        asked(why="depth=2,schedule=dapple"),
        asked(**NO_FIT),
        asked(
            model={"config": config, "name": "µ"},
            sequence_length=64,
            precision="float32",
            cluster={"document": cluster},
        ),
        as_texts(read_request(TINY | {"model": {"profile": measured.fingerprint()}}), measured, None),
        as_texts(read_request(BERT | {"calibration": fitted.fingerprint()}), None, fitted),
    ]
    for question in questions:
        there, here = (who.call(plans.plan, question).document() for who in (pool, HERE))
        del there["search_s"], here["search_s"]
        assert json.dumps(there) == json.dumps(here)
    plan = HERE.call(plans.plan, questions[0]).document()
    del plan["search_s"]
    one, candidate = json.dumps(plan), json.dumps(plan["candidates"][1])
    jobs = [{"name": "a", "plan": one, "asked": questions[0]}] * 2
    works: list[tuple[Callable[..., Result], list[Any], dict[str, Any]]] = [
        (timelines.timeline, [questions[0], candidate], {}),
        (timelines.trace, [questions[0], candidate], {}),
        (fits.fit, [[rows], []], {}),
        (trials.options, [questions[3]], {}),
        (crossovers.crossover, [jobs], {}),
        (crossovers.pictured, [jobs], {}),
        (reports.report, [questions[0], one], {"has_trials": False, "recorded": "[]"}),
    ]
    for work, arguments, named in works:
        assert pool.call(work, *arguments, **named) == HERE.call(work, *arguments, **named), work


def test_errors_are_raised_here_as_they_were_there(pool: Pool) -> None:
    """With their class and their words; what nobody expects brings the traceback of the other process."""
    for kind, question in (
        (UnknownNameError, asked(cluster="piz-dain")),
        (UnsupportedModelError, asked(model={"config": {"model_type": "vit"}}, sequence_length=64)),
    ):
        told = []
        for who in (pool, HERE):
            with pytest.raises(kind) as raised:
                who.call(plans.plan, question)
            told.append((type(raised.value), str(raised.value)))
        assert told[0] == told[1]
    with pytest.raises(ComputationError, match=r"^TypeError: ") as unexpected:
        pool.call(plans.plan, 1)
    assert "in read_asked" in unexpected.value.__notes__[0]


def test_a_call_whose_time_is_over_frees_its_processor(single: Pool) -> None:
    """504 for it, its process is ended, and the next call finds another."""
    process = stop(single)
    token = deadline._deadline.set(Deadline(0.2))
    with pytest.raises(TimeoutProblem, match=r"within 0\.2 s"):
        single.call(plans.plan, asked())
    deadline._deadline.reset(token)
    assert process not in single.processes
    assert goes_on(single)


def test_a_process_that_is_killed_costs_nobody_an_answer(
    single: Pool, waiting: Callable[[Pool], Future[Result]]
) -> None:
    """Idle, or in the middle of a call, which is computed once more."""
    os.kill(*single.processes, signal.SIGKILL)
    assert goes_on(single)
    process = stop(single)
    answer = waiting(single)
    os.kill(process, signal.SIGKILL)
    assert answer.result(PATIENCE_S).facts["outcome"] == "chosen"


def test_what_ends_every_process_is_refused(single: Pool, waiting: Callable[[Pool], Future[Result]]) -> None:
    """503 after the second one, and the pool goes on."""
    stop(single)
    answer = waiting(single)
    while not answer.done():
        for process in single.processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        Event().wait(0.01)
    with pytest.raises(DiedProblem, match="2 times in a row"):
        answer.result()
    assert goes_on(single)


def test_once_it_is_closed_nothing_is_computed(
    single: Pool, waiting: Callable[[Pool], Future[Result]]
) -> None:
    """Who waits for an answer hears it too, and no process is left."""
    stop(single)
    answer = waiting(single)
    single.close()
    for ask in (lambda: answer.result(PATIENCE_S), lambda: goes_on(single)):
        with pytest.raises(UnavailableProblem, match="stopping"):
            ask()
