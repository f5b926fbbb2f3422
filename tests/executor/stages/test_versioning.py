"""Does an asynchronous training go on from a checkpoint as if it had not stopped?"""

from pathlib import Path

import pytest
import torch

from executor.models.loss import mean_squared_error
from executor.running.assembly import Settings
from executor.running.pipeline import Pipeline
from tests.executor.equivalence import DOUBLE, mini_batches, net, sgd
from tests.executor.processes import run_ranks
from tuner.configuration import Configuration

SETTINGS = Settings(pipemare_annealing_steps=4, pipemare_warm_up_steps=2)


def pipeline(schedule: str) -> Pipeline:
    """Eight blocks on two ranks."""
    configuration = Configuration(schedule, width=1, depth=2, micro_batch_size=24, micro_batches=4)
    return Pipeline(net(), mean_squared_error(), configuration, optimizer=sgd, settings=SETTINGS)


def stop_and_go_on(rank: int, world_size: int, schedule: str, path: str) -> float:
    """How far six steps in two calls are from three, a checkpoint, and three in a new pipeline."""
    batches = mini_batches(6)
    through = pipeline(schedule)
    through.train(batches[:3])
    through.train(batches[3:])
    first = pipeline(schedule)
    first.train(batches[:3])
    first.save(path)
    again = pipeline(schedule)
    again.load(path)
    assert again.steps == 3
    again.train(batches[3:])
    expected, found = through.full_state(), again.full_state()
    assert expected.keys() == found.keys()
    return max(((expected[key] - found[key]).abs().max().item() for key in expected), default=0.0)


@pytest.mark.parametrize("schedule", ["pipedream", "pipedream_2bw", "pipemare"])
def test_a_checkpoint_between_two_calls_changes_nothing(schedule: str, tmp_path: Path) -> None:
    """PipeMare's corrections and step are part of it, whatever the schedule."""
    assert run_ranks(2, stop_and_go_on, schedule, str(tmp_path / "state.pt"))[0] == 0.0


def warm_up_like_dapple(rank: int, world_size: int) -> list[float]:
    """The losses of PipeMare's synchronous steps, and how far they are from those of 1F1B with a flush."""
    batches = mini_batches(2)
    flushed = Configuration("dapple", width=1, depth=2, micro_batch_size=24, micro_batches=4)
    ours = pipeline("pipemare").train(batches)
    theirs = Pipeline(net(), mean_squared_error(), flushed, optimizer=sgd).train(batches)
    assert torch.tensor(ours, dtype=DOUBLE).isfinite().all()
    return [abs(a - b) for a, b in zip(ours, theirs, strict=True)]


def test_the_first_steps_of_pipemare_are_those_of_a_flushed_schedule() -> None:
    """T3: synchronous, at the full learning rate, without the correction."""
    assert run_ranks(2, warm_up_like_dapple)[0] == [0.0, 0.0]
