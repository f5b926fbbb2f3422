"""Do the options of `chimera plan` say the same as the request they fill in?"""

from typing import Any, get_args

import click
import pytest

from cli import choices, options
from cli.plan import plan
from profiles.document import Attention, Precision
from tests.cli.command import BERT, Shell
from tuner.exports import FORMATS
from tuner.request import Optimizer, Partition, PlanRequest, Target

OPTIONS = {parameter.name: parameter for parameter in plan.params if isinstance(parameter, click.Option)}
OWN = {"explain", "as_json", "format", "report"}


def test_every_field_of_a_request_is_an_option_and_nothing_else() -> None:
    """A field added to the request cannot be forgotten here."""
    assert OPTIONS.keys() - OWN == PlanRequest.model_fields.keys()
    assert len(options.REQUEST) == len(PlanRequest.model_fields)


@pytest.mark.parametrize("name", PlanRequest.model_fields)
def test_an_option_is_called_like_its_field(name: str) -> None:
    """`mini_batch_size` is --mini-batch-size; other names of the field are other names of the option."""
    wanted = {f"--{name.replace('_', '-')}"}
    alias = PlanRequest.model_fields[name].validation_alias
    if alias is not None:
        wanted |= {f"--{str(other).replace('_', '-')}" for other in getattr(alias, "choices", [])}
    assert set(OPTIONS[name].opts) == wanted


@pytest.mark.parametrize("name", PlanRequest.model_fields)
def test_help_shows_the_default_that_applies(name: str) -> None:
    """An option left out is the request's default."""
    field = PlanRequest.model_fields[name]
    required = ["--model", "tiny-gpt", "--devices", "1", "--mini-batch-size", "1"]
    if field.is_required():
        assert OPTIONS[name].required
    else:
        assert plan.make_context("plan", required).params[name] == field.default


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("precision", get_args(Precision)),
        ("attention", get_args(Attention)),
        ("optimizer", get_args(Optimizer)),
        ("runs_on", get_args(Target)),
        ("partition", get_args(Partition)),
        ("format", FORMATS),
        *(
            (name, get_args(PlanRequest.model_fields[name].annotation))
            for name in (
                "gradient_precision",
                "optimizer_sharding",
                "recompute",
                "search",
                "rank_order",
            )
        ),
    ],
)
def test_an_option_offers_the_words_that_its_field_takes(field: str, words: tuple[str, ...]) -> None:
    """A word offered is a word accepted."""
    kind: Any = OPTIONS[field].type
    assert set(kind.choices) == set(words)


def test_words_shared_by_commands_are_complete() -> None:
    """What `profile` offers is what documents take."""
    assert set(choices.PRECISIONS) == set(get_args(Precision))
    assert set(choices.ATTENTIONS) == set(get_args(Attention))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("--width", "--data-parallel-size"),
        ("--depth", "--pipeline-parallel-size"),
        ("--mini-batch-size", "--global-batch-size"),
    ],
)
def test_two_names_of_an_option_must_not_contradict(chimera: Shell, one: str, other: str) -> None:
    """Neither wins in silence; the same number twice is no contradiction."""
    asked = ["plan", *BERT[:-2], "--mini-batch-size", "512"]
    refused = chimera(*asked, one, "512", other, "256")
    assert refused.code == 2
    assert f"512 and 256 are given to one option ({one}, {other})" in refused.err
    agreed = plan.make_context("plan", [*asked[1:], one, "512", other, "512"])
    assert agreed.params[one.removeprefix("--").replace("-", "_")] == 512
