"""Are the layers of a model that model, and is each of them whole by itself?"""

import copy
import pickle
import resource
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from executor.models import construction as models
from executor.models.layered import LayeredModel, cut
from executor.models.layers import BlockLayer
from executor.models.skeleton import IMPLEMENTATIONS
from profiles import library
from profiles.document import Attention
from tests.executor.tiny_models import SMALL, small
from tuner.errors import UnsupportedModelError
from tuner.estimate import describe

WITHOUT_FUSED_KERNEL = {"gemma2"}
CASES = [
    (family, index, attention)
    for family in SMALL
    for index in (0, 1)
    for attention in ("eager", "flash")
    if (family, attention) not in {(name, "flash") for name in WITHOUT_FUSED_KERNEL}
]


def opened(config: dict[str, Any], **changes: Any) -> LayeredModel:
    options: dict[str, Any] = {"sequence_length": 16, "precision": "float32", "attention": "eager"}
    return cut(config, **(options | changes))


def original(
    model: LayeredModel, layers: list[nn.Module], config: dict[str, Any], *, attention: Attention
) -> tuple[Any, dict[str, nn.Parameter]]:
    """The model of transformers with the weights of `layers`, and these by their names there."""
    parameters = {
        name: layer.get_parameter(own)
        for number, layer in enumerate(layers)
        for own, name in model.names(number).items()
    }
    whole = models.build(config, precision="float32", attention=attention)
    whole.set_attn_implementation(IMPLEMENTATIONS[attention])
    whole.to(layers[0].get_parameter(next(iter(model.names(0)))).dtype)
    with torch.no_grad():
        for name, parameter in whole.named_parameters():
            parameter.copy_(parameters[name])
    return whole, parameters


def run(layers: list[nn.Module], tokens: Tensor) -> Any:
    value: Any = tokens
    for layer in layers:
        value = layer(value)
    return value


@pytest.mark.parametrize(
    ("family", "index", "attention", "precision"),
    [(*case, "float64") for case in CASES] + [(family, 0, "eager", "float32") for family in SMALL],
)
def test_layers_one_after_the_other_are_the_model(
    family: str, index: int, attention: Attention, precision: Literal["float32", "float64"]
) -> None:
    """Logits, loss and every gradient equal those of transformers, bit by bit: the same operations run."""
    config = small(family, index)
    model = opened(config, attention=attention, precision=precision)
    layers = model.build()
    model.share(layers)
    whole, parameters = original(model, layers, config, attention=attention)
    whole.eval()
    tokens, targets = model.batch(3, seed=1)
    scores = run([layer.eval() for layer in layers], tokens)
    wanted = tuple(value for value in whole(input_ids=tokens).values() if isinstance(value, Tensor))
    for ours, theirs in zip(scores if isinstance(scores, tuple) else (scores,), wanted, strict=True):
        assert torch.equal(ours, theirs)
    torch.autograd.backward(model.loss.function(scores, targets))
    torch.autograd.backward(model.loss.function(wanted if len(wanted) > 1 else wanted[0], targets))
    names = {name for name, _ in whole.named_parameters()}
    assert names == parameters.keys()
    for name, parameter in whole.named_parameters():
        assert parameter.grad is not None
        torch.testing.assert_close(parameters[name].grad, parameter.grad, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("family", ["gpt2", "bert", "llama"])
def test_the_loss_is_that_of_transformers(family: str) -> None:
    """Its own labels give the same mean: shifted by one for causal models, both tasks for BERT."""
    config = small(family)
    model = opened(config)
    layers = model.build()
    whole, _ = original(model, layers, config, attention="eager")
    tokens, targets = model.batch(4, seed=3)
    if family == "bert":
        theirs = whole.eval()(
            input_ids=tokens, labels=targets[:, :-1].clone(), next_sentence_label=targets[:, -1]
        )
    else:
        labels = torch.cat([torch.full((4, 1), -100), targets[:, :-1]], dim=1)
        targets = torch.cat([targets[:, :-1], torch.full((4, 1), -100)], dim=1)
        theirs = whole.eval()(input_ids=tokens, labels=labels)
    ours = model.loss.function(run([layer.eval() for layer in layers], tokens), targets)
    torch.testing.assert_close(ours, theirs.loss, rtol=1e-6, atol=0)
    if family == "bert":
        assert model.loss.count(targets) == 4 * (round(0.15 * 16) + 1)
    else:
        assert model.loss.count(targets) == 4 * 15


@pytest.mark.parametrize("family", SMALL)
def test_each_parameter_has_one_layer_and_is_counted_as_estimated(family: str) -> None:
    """Tied ones are named in both layers, and nothing is missing or left over."""
    for index in (0, 1):
        config = small(family, index)
        model = opened(config)
        layers = model.build()
        described = describe(config, sequence_length=16, precision="float32", attention="eager")
        counts = [sum(p.numel() for p in layer.parameters()) for layer in layers]
        assert counts == [layer.parameters for layer in described.layers[:-1]]
        assert counts == [model.parameters(number) for number in range(len(model))]
        for number, layer in enumerate(layers):
            assert {name for name, _ in layer.named_parameters()} == model.names(number).keys()
        for group in model.tied:
            first, *others = (layers[number].get_parameter(name) for number, name in group)
            assert all(torch.equal(first, other) and first is not other for other in others)
        assert bool(model.tied) == bool(described.tied_groups())


def test_weights_depend_on_seed_and_layer_alone() -> None:
    """Made one by one, together or in another order they are the same; precisions agree to rounding."""
    model = opened(small("gpt2"), seed=7)
    together = model.build()
    for number in reversed(range(len(model))):
        (alone,) = model.build([number])
        for ours, theirs in zip(alone.parameters(), together[number].parameters(), strict=True):
            assert torch.equal(ours, theirs)
    low = opened(small("gpt2"), seed=7, precision="bfloat16").build([1])[0]
    double = opened(small("gpt2"), seed=7, precision="float64").build([1])[0]
    for ours, rounded, wide in zip(
        together[1].parameters(), low.parameters(), double.parameters(), strict=True
    ):
        assert torch.equal(ours.bfloat16(), rounded)
        assert torch.equal(ours.double(), wide)
    other = opened(small("gpt2"), seed=8).build([1])[0]
    assert not torch.equal(
        next(p for p in other.parameters() if p.ndim > 1),
        together[1].get_parameter("block.attn.c_attn.weight"),
    )
    assert not torch.equal(
        together[1].get_parameter("block.attn.c_attn.weight"),
        together[2].get_parameter("block.attn.c_attn.weight"),
    )


def test_weights_begin_by_the_rules_of_the_model() -> None:
    """GPT-2 scales what is added to the residual path by 1/√(2L), and norms begin at one."""
    model = opened({"model_type": "gpt2", "n_embd": 256, "n_head": 4, "n_layer": 8, "vocab_size": 500})
    _, layer, head = model.build([0, 3, 9])
    assert layer.get_parameter("block.mlp.c_fc.weight").std().item() == pytest.approx(0.02, rel=0.02)
    assert layer.get_parameter("block.mlp.c_proj.weight").std().item() == pytest.approx(0.02 / 4, rel=0.02)
    assert torch.equal(head.get_parameter("shell.model.transformer.ln_f.weight"), torch.ones(256))


def test_drawing_weights_leaves_the_random_numbers_of_the_user_alone() -> None:
    """And the default dtype."""
    torch.manual_seed(5)
    before = torch.get_rng_state()
    opened(small("llama"), precision="bfloat16").build()
    assert torch.equal(before, torch.get_rng_state())
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.slow
def test_a_stage_of_a_large_model_is_made_without_the_others() -> None:
    """One block of Llama 3 70B: 855,654,400 parameters, drawn in float32 (3.4 GB)."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = cut(
        library.load_model_preset("llama-3-70b").config,
        sequence_length=8192, precision="bfloat16", attention="flash",
    )  # fmt: skip
    outlines = model.build(device="meta")
    assert sum(p.numel() for layer in outlines for p in layer.parameters()) == 70_553_706_496
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 0.5e6
    (block,) = model.build([40])
    assert sum(p.numel() for p in block.parameters()) == 855_654_400
    assert block(torch.zeros(1, 4, 8192, dtype=torch.bfloat16)).shape == (1, 4, 8192)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 6e6


@pytest.mark.parametrize("how", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_layers_can_be_copied_and_sent(how: Any) -> None:
    """A copy computes the same and shares no weights, whatever ran before."""
    model = opened(small("gemma3_text"))
    layers = [layer.eval() for layer in model.build()]
    tokens, _ = model.batch(2, seed=0)
    wanted = run(layers, tokens)
    copies = [how(layer) for layer in layers]
    with torch.no_grad():
        for layer in layers:
            for parameter in layer.parameters():
                parameter.zero_()
    assert torch.equal(run(copies, tokens), wanted)


def test_state_dicts_hold_each_parameter_once_and_no_stand_ins() -> None:
    """What a checkpoint stores is what the layer owns."""
    for layer in opened(small("bert")).build():
        parameters = {name for name, _ in layer.named_parameters()}
        assert layer.state_dict().keys() == parameters | {
            name for name, _ in layer.named_buffers() if name in layer.state_dict()
        }
        assert parameters <= layer.state_dict().keys()


def test_graphs_die_with_their_outputs() -> None:
    """No layer holds on to hidden states: neither the way out of the model nor the remembered calls do."""
    import gc
    import weakref

    model = opened(small("llama"))
    layers = model.build()
    tokens, _ = model.batch(2, seed=0)
    gc.collect()
    gc.disable()
    try:
        hidden = layers[0](tokens)
        block = layers[1](hidden)
        scores = layers[-1](block)
        alive = [weakref.ref(value) for value in (hidden, block, scores)]
        del hidden, block, scores
        assert [reference() for reference in alive] == [None, None, None]
    finally:
        gc.enable()


def test_every_shape_has_its_own_masks() -> None:
    """Micro-batches of other sizes and lengths go through the same layers."""
    model = opened(small("mistral"))
    layers = [layer.eval() for layer in model.build()]
    tokens, _ = model.batch(4, seed=0)
    together = run(layers, tokens)
    for size, length in ((1, 16), (3, 16), (4, 5), (2, 9)):
        part = run(layers, tokens[:size, :length])
        torch.testing.assert_close(part, together[:size, :length], rtol=1e-5, atol=1e-6)
    assert isinstance(layers[1], BlockLayer)


@pytest.mark.parametrize(
    ("config", "changes", "reason"),
    [
        (small("gemma2"), {"attention": "flash"}, "Use eager attention"),
        ({"model_type": "t5"}, {}, "encoder-decoder"),
        ({"model_type": "nonsense"}, {}, "knows no model_type"),
    ],
    ids=["gemma2", "t5", "nonsense"],
)
def test_what_cannot_be_cut_is_refused(config: dict[str, Any], changes: dict[str, Any], reason: str) -> None:
    """In one sentence that says what to do."""
    with pytest.raises(UnsupportedModelError, match=reason):
        opened(config, **changes)
