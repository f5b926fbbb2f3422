"""Does a trial on a CUDA device learn what one process learns, and tell its allocator's peak?"""

import pytest
import torch
from torch import nn

from executor.launchers.outcome import Status
from executor.stages.stage import Stage
from executor.trials.resolution import resolve
from executor.trials.trial import Trial, run_trial
from executor.trials.trial_request import read_trial
from executor.works import Passage

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def device() -> None:
    """Skip where torch sees none."""
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")


def trial(depth: int, **asked: object) -> Trial:
    """A small model in float64, compared with one process on the CPU."""
    request = {
        "model": "tiny-gpt", "micro_batches": 4, "depth": depth, "schedule": "dapple", "check": True,
        "precision": "float64", "device": "cuda", "iterations": 2, "warm_up": 1,
    }  # fmt: skip
    return run_trial(resolve(read_trial(request | asked))[0])


def test_one_rank_runs_over_nccl() -> None:
    """At world size 1; weights, gradients and losses agree, and the allocator saw something."""
    ended = trial(1)
    assert (ended.status, ended.document()["check"]["passed"]) == (Status.OK, True)
    assert ended.document()["peak_memory_bytes"][0] > 0


@pytest.mark.parametrize("schedule", ["dapple", "chimera", "zb_h1"])
def test_two_ranks_share_one_device_over_gloo(schedule: str) -> None:
    """Through page-locked memory of the host; collectives of replicas included."""
    ended = trial(2, schedule=schedule)
    assert (ended.status, ended.document()["check"]["passed"]) == (Status.OK, True)


def test_recomputed_layers_draw_the_same_numbers() -> None:
    """The device's generator is seeded for every layer, also when it runs again: gradients are equal."""
    given = torch.ones(64, 32, device="cuda")
    gradients = []
    for recompute in ("none", "stage", "layer"):
        torch.manual_seed(0)
        layers = [nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.5)).cuda() for _ in range(2)]
        stage = Stage(layers, recompute=recompute, seed=3)
        (output,) = stage.forward(Passage(0, 1), (given.clone().requires_grad_(),))
        (gradient,) = stage.backward(Passage(0, 1), (torch.ones_like(output),))
        gradients.append(gradient)
    assert all(torch.equal(gradient, gradients[0]) for gradient in gradients)


def test_a_device_that_may_not_hold_the_model_runs_out_of_memory() -> None:
    """As an outcome, with the rank that did."""
    ended = trial(1, memory_limit_bytes=1, check=False)
    assert ended.status == Status.OUT_OF_MEMORY
    assert ended.outcome.failure is not None
    assert ended.outcome.failure.rank == 0
