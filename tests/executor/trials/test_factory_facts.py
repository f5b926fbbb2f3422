"""Is a user's factory asked where it can neither spoil the answer nor end the command?"""

import os
import select
from contextlib import suppress
from pathlib import Path

import pytest

from executor.errors import ModelError
from executor.trials.factory_facts import FactoryFacts, ask_factory

FACTORIES = """
import os, time
import torch
from torch import nn

class Model:
    def __init__(self):
        self.layers = [nn.Linear(2, 2) for _ in range(3)]
        self.layers[2].weight = self.layers[0].weight
        self.tied = [[(0, "weight"), (2, "weight")]]

    def batch(self, samples, *, seed):
        return torch.zeros(samples, 2), torch.zeros(samples, 2)

def talks_and_forks():
    print("a word")
    if os.fork() == 0:
        open({left!r}, "w").write(str(os.getpid()))
        time.sleep(1000)
    while not os.path.exists({left!r}):
        time.sleep(0.01)
    os.fork()
    return Model()

def ends():
    os._exit(7)

class Lazy:
    layers = property(lambda self: 1 / 0)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of factories; the process that one leaves behind is named beside it."""
    file = tmp_path / "own.py"
    file.write_text(FACTORIES.format(left=str(tmp_path / "left")), encoding="utf-8")
    return file


def test_what_a_factory_prints_and_starts_is_kept_from_the_answer(
    path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Stdout stays empty, no process of it is left, and a copy of its own process changes nothing."""
    told = ask_factory(f"{path}:talks_and_forks", seed=0, timeout_s=60.0)
    assert told == FactoryFacts(3, (((0, "weight"), (2, "weight")),))
    assert capfd.readouterr().out == ""
    with suppress(ProcessLookupError):
        left = os.pidfd_open(int(path.with_name("left").read_text()))
        assert select.select([left], [], [], 10.0)[0] == [left]


@pytest.mark.parametrize(
    ("name", "said"),
    [("ends", "exit code 7"), ("Lazy", "raised ZeroDivisionError")],
)
def test_a_factory_that_ends_its_process_is_named(path: Path, name: str, said: str) -> None:
    """With how it ended; the process that asks goes on."""
    with pytest.raises(ModelError, match=f"own.py:{name}") as caught:
        ask_factory(f"{path}:{name}", seed=0, timeout_s=60.0)
    assert said in str(caught.value)
