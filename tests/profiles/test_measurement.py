"""Are measurements read as published, and are empty ones refused?"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from profiles.errors import MalformedDocumentError
from profiles.library import load_measurements
from profiles.measurement import Measurements, ModelShape
from tests.profiles.factories import measurement

REFERENCE = Path(__file__).parents[3] / "shared" / "reference"
FILES = {"chimera-sc21": "published_measurements.json", "vtrain-a100": "a100_measurements.json"}


def read(**changes: Any) -> Measurements:
    """One measurement, changed so, as a document."""
    return Measurements.from_value({"source": "here", "measurements": [measurement(**changes)]})


@pytest.mark.parametrize(("name", "file"), FILES.items())
def test_shipped_measurements_are_the_reference_ones(name: str, file: str) -> None:
    """No row was lost or changed, and the source and its licence came along."""
    path = REFERENCE / file
    if not path.exists():
        pytest.skip("the reference measurements do not lie beside this checkout")
    assert load_measurements(name) == Measurements.from_json(path.read_bytes())


def test_the_published_runs_are_all_there() -> None:
    """124 runs of the Chimera paper, nine of which ran out of memory, and 240 on A100s."""
    runs = load_measurements("chimera-sc21").measurements
    assert Counter(run.status for run in runs) == {"ok": 115, "out_of_memory": 9}
    assert len(load_measurements("vtrain-a100").measurements) == 240
    assert "MIT" in load_measurements("vtrain-a100").source
    assert all(isinstance(run.model, ModelShape) for run in load_measurements("vtrain-a100").measurements)


@pytest.mark.parametrize(("flag", "recompute"), [(True, "stage"), (False, "none"), ("layer", "layer")])
def test_a_flag_for_recomputation_is_read_as_stage_or_none(flag: bool | str, recompute: str) -> None:
    """Older documents said only whether."""
    configuration = measurement()["configuration"] | {"recompute": flag}
    assert read(configuration=configuration).measurements[0].configuration.recompute == recompute


def test_a_run_that_ended_well_has_a_result() -> None:
    """Neither a time nor a memory figure: nothing was measured."""
    with pytest.raises(MalformedDocumentError, match="neither a time nor a memory figure"):
        read(throughput_samples_per_s=None)
    assert len(read(status="out_of_memory", throughput_samples_per_s=None).measurements) == 1
    assert len(read(throughput_samples_per_s=None, peak_memory_bytes=[10**9, 10**9]).measurements) == 1


def test_the_emptiest_rank_is_not_the_fullest() -> None:
    """Memory figures that were exchanged are told."""
    with pytest.raises(MalformedDocumentError, match="min 70 exceeds max 30"):
        read(peak_memory_gb={"max": 30, "min": 70})


def test_the_place_of_a_bad_row_is_told() -> None:
    """Among many rows the one at fault is named."""
    rows = [measurement(), measurement(devices=-1)]
    with pytest.raises(MalformedDocumentError, match=r"measurements\.1\.devices: .*not -1"):
        Measurements.from_value({"source": "here", "measurements": rows})
