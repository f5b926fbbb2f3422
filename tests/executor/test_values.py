"""What may cross a cut, and what is said of the rest?"""

import pytest
import torch

from executor.errors import BoundaryError, ModelError
from executor.values import Spec, as_tensors, check, gradient_specs, specs_of

HIDDEN = torch.zeros(2, 3, requires_grad=True)
MASK = torch.ones(4)
IDS = torch.arange(5)


def test_one_tensor_and_a_list_are_tuples_of_tensors() -> None:
    """A stage may give a tensor, a tuple or a list."""
    assert as_tensors(HIDDEN) == (HIDDEN,)
    assert as_tensors([HIDDEN, IDS]) == (HIDDEN, IDS)
    assert as_tensors(()) == ()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"logits": HIDDEN}, "a stage gave a dict"),
        (None, "a stage gave None"),
        ((HIDDEN, None), "item 1 of the 2 .* is None"),
        ((HIDDEN, (IDS,)), "item 1 of the 2 .* is a tuple"),
        (torch.eye(2).to_sparse(), r"item 0 of the 1 .* torch.sparse_coo .*\[2, 2\].*to_dense"),
    ],
)
def test_anything_else_is_refused_by_its_name(value: object, said: str) -> None:
    """With what to do instead."""
    with pytest.raises(ModelError, match=said):
        as_tensors(value)


def test_a_gradient_message_holds_the_gradients_that_are_needed_alone() -> None:
    """A mask and integers have none; what comes needs no gradient itself."""
    specs = specs_of((HIDDEN, MASK, IDS))
    assert [spec.needs_gradient for spec in specs] == [True, False, False]
    assert gradient_specs(specs) == (Spec((2, 3), torch.float32, False),)
    assert gradient_specs(specs_of((IDS,))) == ()


def test_flags_can_be_given_for_detached_values() -> None:
    """The outputs of a stage are detached: who made them knows which need a gradient."""
    assert specs_of((HIDDEN.detach(), IDS), [True, False]) == specs_of((HIDDEN, IDS))


def test_a_spec_knows_its_bytes() -> None:
    """Also without dimensions, and without elements."""
    sizes = [((), torch.float64), ((3, 2), torch.bfloat16), ((0, 7), torch.int64)]
    assert [Spec(shape, dtype, False).bytes for shape, dtype in sizes] == [8, 12, 0]


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ((torch.zeros(2, 4), IDS), r"tensor 0 is float32\[2, 4\] where float32\[2, 3\] was announced"),
        ((HIDDEN, IDS.int()), r"tensor 1 is int32\[5\] where int64\[5\] was announced"),
        ((HIDDEN,), r"1 tensors where 2 were announced \(float32\[2, 3\], int64\[5\]\)"),
    ],
)
def test_what_differs_from_the_announcement_is_shown_beside_it(
    tensors: tuple[torch.Tensor, ...], said: str
) -> None:
    """Both shapes and dtypes, and the message that it is about."""
    specs = specs_of((HIDDEN, IDS))
    check((HIDDEN, IDS), specs, message="a value")
    with pytest.raises(BoundaryError, match=f"a value: {said}"):
        check(tensors, specs, message="a value")
