"""Is a model description counted right, and are unsound ones refused?"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiles.errors import MalformedDocumentError
from profiles.model import Bytes, ModelDescription
from tests.profiles.factories import description, layer


def test_tied_parameters_are_counted_once() -> None:
    """Embedding and head share 70 of their parameters."""
    tied = {"tied_group": "tokens", "tied_parameters": 70}
    model = ModelDescription.from_value(
        description(
            layer("embed", kind="embedding", **tied), layer("layers.0"), layer("head", kind="head", **tied)
        )
    )
    assert model.parameters == 30 + 100 + 30 + 70
    assert model.tied_groups() == {"tokens": 70}
    assert model.blocks == (1,)
    assert model.sample_flops == 3 * 6_000


@given(fixed=st.integers(0, 10**9), per_sample=st.integers(0, 10**9), size=st.integers(1, 10**4))
@settings(deadline=None)
def test_bytes_grow_in_a_line_with_the_micro_batch(fixed: int, per_sample: int, size: int) -> None:
    """One sample more is always as much more."""
    grown = Bytes(fixed=fixed, per_sample=per_sample)
    assert grown.at(size + 1) - grown.at(size) == per_sample
    assert grown.at(1) - per_sample == fixed


@pytest.mark.parametrize(
    ("layers", "told"),
    [
        ([layer("a"), layer("a")], "layer 'a' appears twice"),
        ([layer("embed", kind="embedding")], "no layer of kind 'block'"),
        ([layer("head", kind="head"), layer("layers.0")], "in the order embedding, blocks, head, loss"),
        ([layer("a"), layer("b", parameters=101)], "share type 'block' but differ"),
        ([layer("a", tied_group="t", tied_parameters=101)], "tied_parameters 101 exceed parameters 100"),
        ([layer("a", tied_group="t")], "tied_group and tied_parameters go together"),
        (
            [
                layer("embed", kind="embedding", tied_group="t", tied_parameters=1),
                layer("a", tied_group="t", tied_parameters=2),
            ],
            "members of tied group 't' differ in size",
        ),
    ],
)
def test_an_unsound_description_is_refused(layers: list[dict[str, Any]], told: str) -> None:
    """What would give wrong sums or wrong stages is told before anything is computed."""
    with pytest.raises(MalformedDocumentError) as caught:
        ModelDescription.from_value(description(*layers))
    assert told in str(caught.value)
