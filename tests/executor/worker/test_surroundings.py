"""Does a job get the devices that it asks for?"""

import json
from pathlib import Path

import pytest

from executor.errors import ConfigurationError
from executor.worker.inventory import has_driver, take_inventory
from executor.worker.surroundings import Surroundings, torch_device
from profiles.errors import DocumentError
from tests.executor.worker.factories import CPU, here
from tuner.messages import DeviceGroup

H200 = DeviceGroup(accelerator="h200-141gb", count=2, memory_bytes=141 * 10**9)


@pytest.mark.parametrize(
    ("accelerator", "count", "given"),
    [
        (None, 1, "h200-141gb"),
        (None, 4, "cpu"),
        ("cpu", 1, "cpu"),
        ("cpu", 8, "cpu"),
        ("h200-141gb", 2, "h200-141gb"),
    ],
)
def test_accelerators_come_first_where_they_suffice(accelerator: str | None, count: int, given: str) -> None:
    """Processes share processors, never accelerators; a job that names devices gets those."""
    group = here(devices=(CPU, H200)).devices_for(accelerator, count=count)
    assert group.accelerator == given
    assert torch_device(group) == ("cpu" if given == "cpu" else "cuda")


@pytest.mark.parametrize(("accelerator", "count"), [("a100-40gb", 1), ("h200-141gb", 3)])
def test_devices_that_are_not_here_are_refused(accelerator: str, count: int) -> None:
    """The message says what the worker has."""
    with pytest.raises(ConfigurationError, match="2 x cpu, 2 x h200-141gb"):
        here(devices=(CPU, H200)).devices_for(accelerator, count=count)


def test_surroundings_reach_the_process_of_a_job_as_json() -> None:
    """What is read is what was written."""
    made = here(devices=(CPU, H200), limit_s=7.5)
    assert Surroundings.read(json.loads(json.dumps(made.document()))) == made


def test_this_machine_has_processors_and_memory() -> None:
    """Every processor is a device of the data sheet `cpu`, with its share of the memory."""
    inventory = take_inventory(identifier="0" * 26, pools=("a", "b"))
    processors = inventory.devices[-1]
    assert processors.accelerator == "cpu"
    assert processors.count >= 1
    assert processors.memory_bytes > 10**7
    assert inventory.name
    assert inventory.pools == ("a", "b")
    assert {"python", "torch"} <= inventory.software.keys()


@pytest.mark.parametrize(("file", "found"), [("null", False), ("nvidiactl", False), ("nvidia0", True)])
def test_torch_is_started_only_where_a_device_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, found: bool
) -> None:
    """Looking takes seconds, which a machine without accelerators need not wait for."""
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / file).touch()
    assert has_driver(tmp_path) is found


def test_a_data_sheet_for_accelerators_that_are_not_there_is_refused() -> None:
    """So is one that nobody has heard of; either is a slip of the command line."""
    if has_driver():
        pytest.skip("this machine has accelerators")
    with pytest.raises(ConfigurationError, match="no accelerator that h100-80gb"):
        take_inventory(identifier="0" * 26, accelerator="h100-80gb")
    with pytest.raises(DocumentError, match="h100"):
        take_inventory(identifier="0" * 26, accelerator="h1000")
