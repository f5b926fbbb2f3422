"""Do models of the user's own come in whole, and are errors about them told with the factory's name?"""

import sys
from pathlib import Path

import pytest
import torch

from executor.errors import ConfigurationError, ExecutorError, ModelError
from executor.models.factories import FactoryModel, is_factory
from executor.models.sources import open_model
from profiles.errors import UnknownNameError
from tests.executor.tiny_models import small
from tuner.errors import UnsupportedModelError

GOOD = """
import torch
from torch import nn

class Tied:
    def __init__(self):
        self.layers = [nn.Embedding(11, 6), nn.Linear(6, 6), nn.Linear(6, 11, bias=False)]
        self.layers[2].weight = self.layers[0].weight
        self.tied = [[(0, "weight"), (2, "weight")]]
        self.sequence_length = 5

    def batch(self, samples, *, seed):
        words = torch.randint(11, (samples, 6), generator=torch.Generator().manual_seed(seed))
        return words[:, :-1], words[:, 1:]

def plain():
    return [nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 2)]

def shared():
    one = nn.Linear(3, 3)
    return [one, nn.Tanh(), one]

def empty():
    return []

def words():
    return ["a", "b"]

def number():
    return 5

def fails():
    raise ValueError("no luck")

constant = 3
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a module of factories, forgotten afterwards."""
    (tmp_path / "own_models.py").write_text(GOOD)
    (tmp_path / "json.py").write_text("raise RuntimeError('hides an installed module')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "own_models", raising=False)
    return tmp_path


def test_a_factory_is_found_by_module_and_by_file(here: Path) -> None:
    """The working folder is searched last, and the same layers come from either name."""
    by_module = FactoryModel("own_models:plain", seed=3).build()
    by_file = FactoryModel(f"{here}/own_models.py:plain", seed=3).build()
    again = FactoryModel("own_models.py:plain", seed=4).build()
    assert torch.equal(by_module[0].get_parameter("weight"), by_file[0].get_parameter("weight"))
    assert not torch.equal(by_module[0].get_parameter("weight"), again[0].get_parameter("weight"))
    assert sys.path[0] != str(here)
    assert sys.path.index(str(here)) >= len(sys.path) - 2
    sys.modules.pop("own_models", None)


def test_an_object_brings_data_loss_and_ties(here: Path) -> None:
    """Tied parameters come apart for ranks and are one again for a single process."""
    model = open_model("own_models.py:Tied", seed=1)
    layers = model.build()
    assert model.tied == (((0, "weight"), (2, "weight")),)
    assert layers[0].weight is not layers[2].weight
    assert torch.equal(layers[0].get_parameter("weight"), layers[2].get_parameter("weight"))
    model.share(layers)
    assert layers[0].weight is layers[2].weight
    inputs, targets = model.batch(4, seed=2)
    (tokens,) = inputs
    assert tokens.shape == targets.shape == (4, model.sequence_length)
    loss = model.loss.function(layers[2](layers[1](layers[0](tokens))), targets)
    assert loss.item() > 0
    assert model.loss.count(targets) == 20
    assert [len(model), len(model.build([1]))] == [3, 1]


@pytest.mark.parametrize(
    ("name", "error", "reason"),
    [
        ("own_models.py:shared", ModelError, r"between layer 0 \(weight\) and layer 2"),
        ("own_models.py:empty", ModelError, "returned an empty list"),
        ("own_models.py:words", ModelError, "a list that holds a str"),
        ("own_models.py:number", ModelError, "returned a value of type int"),
        ("own_models.py:fails", ModelError, "raised ValueError: no luck"),
        ("own_models.py:missing", ConfigurationError, "'missing' is not there"),
        ("own_models.py:constant", ConfigurationError, "'constant' is no function"),
        ("nowhere.py:f", ConfigurationError, "cannot import 'nowhere.py'"),
        ("no_such_module.at_all:f", ConfigurationError, "ModuleNotFoundError"),
        ("words without a colon", ConfigurationError, "names no factory"),
    ],
)
def test_errors_name_the_factory(here: Path, name: str, error: type[ExecutorError], reason: str) -> None:
    """And say what it returned, and what it must return."""
    with pytest.raises(error, match=reason) as refusal:
        FactoryModel(name)
    assert name in str(refusal.value)


def test_a_list_of_layers_has_no_data(here: Path) -> None:
    """Asking for it says what to add."""
    with pytest.raises(ModelError, match="return an object with `layers` and `batch`"):
        FactoryModel("own_models.py:plain").batch(2, seed=0)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("module:function", True),
        ("package.module:function", True),
        ("some/folder/file.py:function", True),
        ("gpt2-small", False),
        ("config.json", False),
        ("owner/name:tag", False),
        ("a b:c", False),
    ],
)
def test_factories_are_told_from_other_names(name: str, wanted: bool) -> None:
    """By their form alone, so that nothing is imported to find out."""
    assert is_factory(name) is wanted


def test_presets_and_configs_open_with_their_own_settings() -> None:
    """A preset knows its length; a config.json does not."""
    assert len(open_model("tiny-gpt")) == 6
    assert open_model("tiny-gpt").sequence_length == 64
    assert len(open_model({"config": small("bert")}, sequence_length=8)) == 4
    with pytest.raises(ConfigurationError, match="sequence length is required"):
        open_model({"config": small("bert")})
    with pytest.raises(UnsupportedModelError, match="learned positions"):
        open_model("tiny-gpt", sequence_length=65)
    with pytest.raises(UnknownNameError):
        open_model("tiny")
