"""Are the shipped data sheets plausible and complete?"""

import json

import pytest

from profiles.device import Accelerator
from profiles.errors import MalformedDocumentError
from profiles.library import load_accelerator, names

ACCELERATORS = [load_accelerator(name) for name in names("devices")]


def test_there_are_accelerators_from_p100_to_b200() -> None:
    """The library spans eight years of hardware of two vendors."""
    assert len(ACCELERATORS) >= 12
    assert {"NVIDIA", "AMD"} <= {accelerator.vendor for accelerator in ACCELERATORS}


@pytest.mark.parametrize(
    ("name", "memory_bytes"), [("p100-16gb", 17.07e9), ("h100-80gb", 85.5e9), ("mi300x-192gb", 206.1e9)]
)
def test_memory_is_what_the_driver_shows(name: str, memory_bytes: float) -> None:
    """Not the figure on the box, which is a few per cent off in either direction."""
    assert load_accelerator(name).memory_bytes == pytest.approx(memory_bytes, rel=1e-3)


@pytest.mark.parametrize("name", [name for name in names("devices") if name.endswith("gb")])
def test_memory_is_near_the_figure_in_the_name(name: str) -> None:
    """A slip in a unit would show."""
    on_the_box = int(name.rsplit("-", 1)[1].removesuffix("gb")) * 1e9
    assert 0.95 < load_accelerator(name).memory_bytes / on_the_box < 1.1


@pytest.mark.parametrize(
    ("name", "precision", "peak_flops"),
    [
        ("p100-16gb", "float32", 9.3e12),
        ("v100-32gb", "float16", 125e12),
        ("a100-80gb", "bfloat16", 312e12),
        ("h100-80gb", "bfloat16", 989.4e12),
        ("h100-80gb", "float32", 66.9e12),
        ("mi300x-192gb", "bfloat16", 1307.4e12),
    ],
)
def test_peaks_are_dense_and_as_frameworks_use_them(name: str, precision: str, peak_flops: float) -> None:
    """No sparsity, and no TF32 behind float32."""
    assert dict(load_accelerator(name).peak_flops)[precision] == peak_flops  # type: ignore[index]


@pytest.mark.parametrize("name", ["p100-16gb", "v100-16gb", "v100-32gb"])
def test_devices_before_ampere_have_no_bfloat16(name: str) -> None:
    """A precision that the hardware lacks is not offered."""
    assert "bfloat16" not in load_accelerator(name).peak_flops


def test_efficiencies_say_whether_they_were_fitted() -> None:
    """A fit needs published timings, which exist for three chips; the others are estimates."""
    fitted = {device.name for device in ACCELERATORS if device.efficiency.provenance == "fitted"}
    assert fitted == {"p100-16gb", "v100-16gb", "v100-32gb", "rtx-3090-24gb"}
    assert {device.efficiency.provenance for device in ACCELERATORS} <= {"fitted", "estimated"}


def test_a_data_sheet_without_float32_is_refused() -> None:
    """Master weights and the optimizer are float32 everywhere."""
    sheet = json.loads(load_accelerator("h100-80gb").to_json())
    del sheet["peak_flops"]["float32"]
    with pytest.raises(MalformedDocumentError, match="peak_flops must name float32"):
        Accelerator.from_value(sheet)


def test_a_figure_without_a_source_is_refused() -> None:
    """Constants of unknown origin are what makes people distrust a tuner."""
    sheet = json.loads(load_accelerator("h100-80gb").to_json())
    del sheet["sources"]["memory_bytes"]
    with pytest.raises(MalformedDocumentError, match=r"no source for \['memory_bytes'\]"):
        Accelerator.from_value(sheet)
