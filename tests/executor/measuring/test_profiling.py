"""Does a measured profile hold what the layers do, and say what disturbed it?"""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from executor.errors import ConfigurationError, ModelError
from executor.measuring import profiling
from executor.measuring.measure import LossLayer, measure_layer
from executor.measuring.profiling import Plan, take_profile
from executor.measuring.retention import Retained, retained
from executor.measuring.subjects import samples
from executor.models.construction import DeviceDropout
from executor.models.factories import FactoryModel
from executor.models.sources import describe_model, open_model
from executor.values import as_tensors
from profiles.timings import Profile

CPU = torch.device("cpu")
SIZES = {
    "gpt2": ({"n_embd": 128, "n_head": 4, "n_layer": 2}, {"n_embd": 256, "n_head": 8, "n_layer": 2}),
    "bert": (
        {"hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 512, "num_hidden_layers": 2},
        {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024, "num_hidden_layers": 2},
    ),
    "llama": (
        {"hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 344,
         "num_hidden_layers": 2},
        {"hidden_size": 256, "num_attention_heads": 8, "num_key_value_heads": 8, "intermediate_size": 688,
         "num_hidden_layers": 2},
    ),
}  # fmt: skip
"""Two sizes of each family."""

FACTORY = """
import torch
from torch import nn

class Model:
    def __init__(self):
        self.layers = [nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32)]
        self.layers += [nn.Tanh(), nn.Linear(32, 32), nn.Linear(32, 4)]
        self.loss = nn.functional.mse_loss

    def batch(self, samples, *, seed):
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(samples, 8, generator=generator), torch.randn(samples, 4, generator=generator)

class Tied(Model):
    tied = [[(2, "weight"), (4, "weight")]]

class Mixed(Model):
    def __init__(self):
        super().__init__()
        self.layers[0].double()
        self.layers.insert(1, Single())

class Single(nn.Module):
    def forward(self, x):
        return x.float()

    def batch(self, samples, *, seed):
        return None

def mixed():
    model = Mixed()
    plain = model.batch
    model.batch = lambda samples, *, seed: tuple(value.double() for value in plain(samples, seed=seed))
    return model
"""


def config_of(family: str, size: int) -> dict[str, Any]:
    return {"model_type": family, "vocab_size": 200, "pad_token_id": 0} | SIZES[family][size]


def kept_by(layer: nn.Module, inputs: tuple[Tensor, ...]) -> Retained:
    leaves = tuple(value.detach().requires_grad_(value.is_floating_point()) for value in inputs)

    def backward(outputs: tuple[Tensor, ...]) -> None:
        torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])

    return retained(
        lambda: as_tensors(layer(*leaves)),
        backward,
        own=[*layer.parameters(), *layer.buffers()],
        device=CPU,
    )


@pytest.mark.parametrize("attention", ["eager", "flash"])
@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("family", SIZES)
def test_layers_keep_what_was_estimated(family: str, size: int, attention: Any) -> None:
    """Within 1 % of what autograd really saves, at two sizes of model and of micro-batch, with dropout."""
    options = {"sequence_length": 64, "precision": "float32", "attention": attention}
    config = {"config": config_of(family, size)}
    described = describe_model(config, **options)
    model = open_model(config, **options)
    layers = model.build()
    for micro_batch_size in (1, 4):
        values, _ = samples(model, micro_batch_size, device=CPU, seed=0)
        for layer, expected in zip(layers, described.layers, strict=False):
            with DeviceDropout():
                found = kept_by(layer, values)
                values = tuple(value.detach() for value in as_tensors(layer(*values)))
            if expected.kind == "block":
                assert found.kept_bytes == pytest.approx(
                    expected.activation_bytes.at(micro_batch_size), rel=0.01
                )


@pytest.mark.parametrize(("hidden_size", "heads"), [(128, 4), (256, 4)])
def test_a_layer_of_the_formula_keeps_what_the_formula_says(hidden_size: int, heads: int) -> None:
    """Korthikanti et al. (arXiv 2205.05198), equation 1: S·B·h·(34 + 5·a·S/h) bytes in 16 bits with dropout.

    BERT with its plain GELU is such a layer: two bytes an element, one for each element of a mask.
    """
    sequence, batch = 64, 4
    config = {"hidden_size": hidden_size, "num_attention_heads": heads, "intermediate_size": 4 * hidden_size}
    model = open_model(
        {"config": {"model_type": "bert", "num_hidden_layers": 1, "vocab_size": 100} | config},
        sequence_length=sequence, precision="bfloat16", attention="eager",
    )  # fmt: skip
    (block,) = model.build([1])
    with DeviceDropout():
        found = kept_by(block, (torch.randn(batch, sequence, hidden_size, dtype=torch.bfloat16),))
    formula = sequence * batch * hidden_size * (34 + 5 * heads * sequence / hidden_size)
    assert found.kept_bytes == pytest.approx(formula, rel=0.01)


def test_the_peak_is_what_lives_at_once() -> None:
    """Known tensors of 4,000 bytes each: one kept, one that lives until the sum, one gradient."""
    first = torch.randn(1_000, requires_grad=True)

    def forward() -> Tensor:
        kept = first.exp()  # saved by itself
        return (kept * 2).sum()  # the product lives only until the sum

    found = retained(forward, torch.autograd.backward, own=[], device=CPU)
    assert found.kept_bytes == 4_000
    assert 4_000 <= found.transient_bytes <= 3 * 4_000


@pytest.fixture(scope="module")
def taken() -> Profile:
    """A profile of tiny-gpt with next to no budget: the structure is looked at, not the times."""
    plan = Plan((1, 3), budget_s=0.0)
    return take_profile(open_model("tiny-gpt"), plan, name="tiny-gpt", description=describe_model("tiny-gpt"))


def test_every_kind_of_layer_is_measured_once(taken: Profile) -> None:
    """One of the four equal blocks, the embedding, the head and the loss, at each size."""
    assert [entry.type for entry in taken.timings.types] == ["embedding", "block", "head", "loss"]
    for entry in taken.timings.types:
        assert entry.provenance == "measured"
        assert [point.micro_batch_size for point in entry.points] == [1, 3]
        assert entry.update_s is not None
        assert (entry.update_s > 0) == (entry.type != "loss")
        for point in entry.points:
            assert point.input_backward_s is not None
            assert point.weight_backward_s is not None
            assert point.recomputed_backward_s is not None
            assert point.recomputed_backward_s > 0
            assert point.repeats is not None
            assert point.spread is not None
    block = taken.timings.types[1].points[1]
    assert block.boundary_bytes == 3 * 64 * 64 * 4
    assert block.activation_bytes == taken.description.layers[1].activation_bytes.at(3)


def test_the_profile_says_where_it_was_taken(taken: Profile) -> None:
    """Machine, versions, threads and optimizer travel with it, and it is found again by its fingerprint."""
    timings = taken.timings
    assert (timings.accelerator, timings.optimizer) == ("cpu", "adam")
    assert timings.environment is not None
    assert timings.environment.threads == 1
    assert timings.environment.software["torch"] == torch.__version__
    assert timings.environment.cores
    again = Profile.from_json(taken.to_json())
    assert again == taken
    assert again.fingerprint() == taken.fingerprint()


def test_sizes_that_do_not_fit_end_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before memory runs out: the largest size that fits is written down, with the reason."""
    model, described = open_model("tiny-gpt"), describe_model("tiny-gpt")
    monkeypatch.setattr(profiling, "free_bytes", lambda _: 8_000_000)
    plan = Plan((1, 2, 64, 128), budget_s=0.0)
    profile = take_profile(model, plan, name="tiny-gpt", description=described)
    assert {len(entry.points) for entry in profile.timings.types} == {2}
    assert profile.timings.largest_micro_batch_size == 2
    assert any("from 64 on do not fit" in note for note in profile.timings.notes)


def test_a_first_size_that_cannot_fit_is_refused_before_it_takes_memory() -> None:
    """One sample tells what ten million would take, whatever else was asked."""
    model, described = open_model("tiny-gpt"), describe_model("tiny-gpt")
    plan = Plan((10_000_000,), budget_s=0.0)
    with pytest.raises(ConfigurationError, match=r"10,000,000 does not fit on cpu: .* expected to take"):
        take_profile(model, plan, name="tiny-gpt", description=described)


def test_memory_that_runs_out_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the size at which it did is kept; if that was the first, nothing can be told."""
    model, described = open_model("tiny-gpt"), describe_model("tiny-gpt")
    real = measure_layer

    def fails(layer: Any, inputs: Any, *, micro_batch_size: int, **options: Any) -> Any:
        if micro_batch_size >= 2 and isinstance(layer, LossLayer):
            raise torch.OutOfMemoryError("tried to allocate 9.00 GiB")
        return real(layer, inputs, micro_batch_size=micro_batch_size, **options)

    monkeypatch.setattr(profiling, "measure_layer", fails)
    profile = take_profile(model, Plan((1, 2), budget_s=0.0), name="t", description=described)
    assert profile.timings.largest_micro_batch_size == 1
    with pytest.raises(ConfigurationError, match="micro-batch size 2 does not fit"):
        take_profile(model, Plan((2,), budget_s=0.0), name="t", description=described)


@pytest.fixture
def factory(tmp_path: Path) -> Path:
    """A file of factories."""
    path = tmp_path / "models_of_users.py"
    path.write_text(FACTORY)
    return path


def test_the_layers_of_a_factory_are_described_by_measuring(factory: Path) -> None:
    """Equal layers once; FLOPs, parameters and bytes as they are."""
    model = FactoryModel(f"{factory}:Model")
    profile = take_profile(model, Plan((2, 4), budget_s=0.0), name="users")
    description = profile.description
    assert [layer.type for layer in description.layers] == [
        "layers.0", "layers.1", "layers.2", "layers.1", "layers.2", "layers.5", "loss",
    ]  # fmt: skip
    first, tanh, square = description.layers[:3]
    assert (first.parameters, first.forward_flops) == (8 * 32 + 32, 2 * 8 * 32)
    assert square.backward_flops == 2 * square.forward_flops
    assert tanh.activation_bytes.at(4) == 4 * 32 * 4
    assert first.cut_bytes.at(3) == 3 * 32 * 4
    assert description.precision == "float32"
    assert len(profile.timings.types) == 5


def test_tied_layers_of_a_factory_are_a_group(factory: Path) -> None:
    """The parameters count once in the model, and in both layers."""
    profile = take_profile(FactoryModel(f"{factory}:Tied"), Plan((1,), budget_s=0.0), name="users")
    assert profile.description.tied_groups() == {"tied.0": 32 * 32}
    layers = profile.description.layers
    assert layers[2].parameters == layers[4].parameters == 32 * 32 + 32
    assert profile.description.parameters == 8 * 32 + 32 + 32 * 32 + 2 * 32 + 32 * 4 + 4


def test_layers_of_two_precisions_are_refused(factory: Path) -> None:
    """A profile is taken at one."""
    with pytest.raises(ModelError, match="float32, float64"):
        take_profile(FactoryModel(f"{factory}:mixed"), Plan((1,), budget_s=0.0), name="users")


def test_threads_are_set_back(taken: Profile) -> None:
    """One thread computed; afterwards there are as many as before."""
    before = torch.get_num_threads()
    with profiling.computing_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


@pytest.mark.gpu
def test_a_gpu_is_measured_to_two_percent_and_never_beyond_its_peak() -> None:
    """Spread under 2 %; kept, transient and weights predict the allocator's peak within 3 % and not below."""
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    config = {
        "config": {"model_type": "gpt2", "n_embd": 1024, "n_head": 16, "n_layer": 2, "vocab_size": 50257}
    }
    options: dict[str, Any] = {"sequence_length": 512, "precision": "bfloat16", "attention": "flash"}
    model, described = open_model(config, **options), describe_model(config, **options)
    profile = take_profile(model, Plan((4, 8), device="cuda"), name="gpt2", description=described)
    block = next(entry for entry in profile.timings.types if entry.type == "block")
    assert all((point.spread or 0) < 0.02 for point in block.points)
    (layer,) = model.build([1], device="cuda")
    for parameter in layer.parameters():
        parameter.grad = torch.zeros_like(parameter)
    hidden = torch.randn(8, 512, 1024, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    layer(hidden).sum().backward()
    hidden.grad = None
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    output = layer(hidden)
    output.backward(torch.ones_like(output))
    peak = torch.cuda.max_memory_allocated() - before
    point = block.points[-1]
    predicted = (point.activation_bytes or 0) + (point.transient_bytes or 0)
    assert peak <= predicted <= 1.03 * peak
