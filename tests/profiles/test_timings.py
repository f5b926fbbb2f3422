"""Are the published layer timings shipped unchanged, and are unsound ones refused?"""

import json
from pathlib import Path
from typing import Any

import pytest

from profiles.errors import MalformedDocumentError
from profiles.library import load_timings
from profiles.timings import LayerTimings, Profile
from tests.profiles.factories import description, layer, timings

REFERENCE = Path(__file__).parents[3] / "shared" / "reference" / "layer_timings.json"
DEVICES = {"p100": "p100-16gb", "v100": "v100-32gb", "rtx3090": "rtx-3090-24gb"}
MIB = 2**20


def published(layer_name: str, device: str) -> LayerTimings:
    """The shipped timings of `layer_name` on `device`."""
    return next(each for each in load_timings() if each.name == f"{layer_name}-layer-{device}")


@pytest.mark.parametrize(
    ("layer_name", "shape"), [("bert-base", (768, 12, 3072)), ("bert-large", (1024, 16, 4096))]
)
@pytest.mark.parametrize("device", DEVICES.values())
def test_published_timings_apply_to_layers_of_their_shape(
    layer_name: str, shape: tuple[int, int, int], device: str
) -> None:
    """They are found by family, sizes, precision, attention and sequence length."""
    found = published(layer_name, device)
    hidden_size, heads, intermediate_size = shape
    assert (found.precision, found.attention, found.sequence_length) == ("float32", "eager", 128)
    assert [entry.provenance for entry in found.types] == ["published"]
    assert found.types[0].shape == {
        "family": "bert",
        "hidden_size": hidden_size,
        "heads": heads,
        "kv_heads": heads,
        "intermediate_size": intermediate_size,
    }
    assert [point.micro_batch_size for point in found.types[0].points] == [1, 2, 4, 8, 16, 32, 64]


def test_units_are_seconds_and_bytes() -> None:
    """11.00 MiB of activations for each sample of a BERT-large layer, as published."""
    for device in DEVICES.values():
        points = published("bert-large", device).types[0].points
        assert points[0].activation_bytes == 11 * MIB
        assert 5e-4 < points[0].forward_s < 5e-3
    assert published("bert-base", "p100-16gb").types[0].points[0].backward_s == 0.001207


def test_every_value_is_the_reference_one() -> None:
    """Milliseconds and MiB of the reference file, to its own rounding."""
    if not REFERENCE.exists():
        pytest.skip("the reference timings do not lie beside this checkout")
    reference: dict[str, Any] = json.loads(REFERENCE.read_bytes())["layers"]
    assert {(name, device) for name, of_device in reference.items() for device in of_device} == {
        (name, device) for name in ("bert-base", "bert-large") for device in DEVICES
    }
    for name, of_device in reference.items():
        for device, rows in of_device.items():
            points = published(name, DEVICES[device]).types[0].points
            for row, point in zip(rows, points, strict=True):
                assert point.micro_batch_size == row["micro_batch_size"]
                assert point.forward_s == pytest.approx(row["forward_ms"] / 1e3, rel=1e-12)
                assert point.backward_s == pytest.approx(row["backward_ms"] / 1e3, rel=1e-12)
                assert point.activation_bytes == pytest.approx(row["activation_mib"] * MIB, abs=0.5)
                assert point.transient_bytes == pytest.approx(row["transient_mib"] * MIB, abs=0.5)


@pytest.mark.parametrize("sizes", [(2, 1), (1, 1), (1, 4, 4)])
def test_micro_batch_sizes_must_rise(sizes: tuple[int, ...]) -> None:
    """Between points is interpolated, so their order must be plain."""
    with pytest.raises(MalformedDocumentError, match="must rise without repeats"):
        LayerTimings.from_value(timings(*sizes))


def test_a_layer_type_is_timed_once() -> None:
    """Two answers for one layer are none."""
    twice = timings()["types"] * 2
    with pytest.raises(MalformedDocumentError, match="appears twice: leave one"):
        LayerTimings.from_value(timings(types=twice))


@pytest.mark.parametrize("time_s", [0, -0.001, 1e30])
def test_a_time_that_cannot_be_is_refused(time_s: float) -> None:
    """A layer takes some time, and less than thirty years."""
    entry = timings()["types"][0]
    entry["points"][0]["forward_s"] = time_s
    with pytest.raises(MalformedDocumentError, match=r"types\.0\.points\.0\.forward_s"):
        LayerTimings.from_value(timings(types=[entry]))


def test_only_the_fault_inside_a_list_is_told() -> None:
    """A list that is not read on has no entries yet, which says nothing of the document."""
    entry = timings()["types"][0]
    entry["points"][0]["forward_s"] = 0
    with pytest.raises(MalformedDocumentError, match=r"forward_s: [^;]*$"):
        LayerTimings.from_value(timings(types=[entry]))


@pytest.mark.parametrize(
    ("field", "value"), [("precision", "bfloat16"), ("attention", "flash"), ("sequence_length", 128)]
)
def test_a_profile_is_of_one_kind(field: str, value: object) -> None:
    """Timings taken otherwise do not belong to the description."""
    with pytest.raises(MalformedDocumentError, match=f"{field} differs"):
        Profile.from_value({"description": description(), "timings": timings(**{field: value})})


def test_a_profile_times_every_layer_type() -> None:
    """A missing entry never becomes zero."""
    layers = (layer("embed", kind="embedding"), layer())
    with pytest.raises(MalformedDocumentError, match=r"no timings for layer types \['embedding'\]"):
        Profile.from_value({"description": description(*layers), "timings": timings()})
    assert Profile.from_value({"description": description(), "timings": timings()}).timings.name
