"""Are the shipped models the published ones?"""

import pytest

from profiles.library import load_model_preset, names
from tuner.estimate import describe

# Counted by building each model with transformers on the meta device; the paper's three as the paper says.
PARAMETERS = {
    "bert-48": 669_790_012,
    "bert-base": 110_106_428,
    "bert-large": 336_226_108,
    "gemma-2-9b": 9_241_705_984,
    "gemma-3-12b": 11_766_034_176,
    "gemma-3-1b": 999_885_952,
    "gemma-3-4b": 3_880_263_168,
    "gpt-neox-20b": 20_554_567_680,
    "gpt2-32": 759_649_280,
    "gpt2-64": 1_389_327_360,
    "gpt2-large": 774_030_080,
    "gpt2-medium": 354_823_168,
    "gpt2-small": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-2-7b": 6_738_415_616,
    "llama-3-70b": 70_553_706_496,
    "llama-3-8b": 8_030_261_248,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.2-1b": 1_235_814_400,
    "mistral-7b": 7_241_732_096,
    "opt-1.3b": 1_315_758_080,
    "opt-6.7b": 6_658_473_984,
    "opt-66b": 65_719_701_504,
    "phi-3-medium": 13_960_238_080,
    "phi-3-mini": 3_821_079_552,
    "pythia-6.9b": 6_857_302_016,
    "qwen2-7b": 7_615_616_512,
    "qwen3-0.6b": 596_049_920,
    "qwen3-8b": 8_190_735_360,
    "tiny-gpt": 220_544,
}
OF_THE_PAPER = {"bert-48": 128, "gpt2-64": 632, "gpt2-32": 632}


@pytest.mark.parametrize("name", names("models"))
def test_a_preset_has_the_parameters_of_the_published_model(name: str) -> None:
    """Every parameter is counted, tied ones once."""
    preset = load_model_preset(name)
    description = describe(
        preset.config,
        sequence_length=preset.sequence_length,
        precision=preset.precision,
        attention=preset.attention,
        name=preset.name,
    )
    assert description.parameters == PARAMETERS[name]


@pytest.mark.parametrize(("name", "sequence_length"), OF_THE_PAPER.items())
def test_the_models_of_the_paper_run_as_in_the_paper(name: str, sequence_length: int) -> None:
    """Float32, eager attention, dropout 0.1, an untied head, and the paper's sequence length."""
    preset = load_model_preset(name)
    assert (preset.precision, preset.attention) == ("float32", "eager")
    assert preset.sequence_length == sequence_length
    assert not preset.config["tie_word_embeddings"]
    dropouts = {key: value for key, value in preset.config.items() if "pdrop" in key or "dropout" in key}
    assert set(dropouts.values()) == {0.1}


def test_other_models_are_trained_as_people_do_today() -> None:
    """Mixed precision and flash attention unless the model says otherwise; the smallest runs on a CPU."""
    others = {name: load_model_preset(name) for name in names("models") if name not in OF_THE_PAPER}
    assert {preset.attention for preset in others.values()} == {"flash"}
    assert {name for name, preset in others.items() if preset.precision != "bfloat16"} == {"tiny-gpt"}


@pytest.mark.parametrize("name", names("models"))
def test_a_sample_is_no_longer_than_the_model_allows(name: str) -> None:
    """The default sequence length is within the positions that the model knows."""
    preset = load_model_preset(name)
    positions = preset.config.get("max_position_embeddings") or preset.config["n_positions"]
    assert preset.sequence_length <= positions
