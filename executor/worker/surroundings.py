"""What is a job given to work with? Devices of this machine or of a cluster, and how long it may take."""

from dataclasses import asdict, dataclass, field
from typing import Any, Self

from executor.errors import ConfigurationError
from executor.launchers.launcher import LauncherName
from executor.launchers.wanted import Wanted
from tuner.messages import DeviceGroup


@dataclass(frozen=True)
class Surroundings:
    """What the worker tells the process of a job."""

    devices: tuple[DeviceGroup, ...]
    budget_s: float = 2.0
    """Longest time to repeat one layer at one size."""
    limit_s: float = 3600.0
    """Of any job."""
    launcher: LauncherName = "local"
    """Who starts the ranks of trials: this machine, or a cluster that has the devices."""
    wanted: Wanted = field(default_factory=Wanted)

    def devices_for(self, accelerator: str | None, *, count: int) -> DeviceGroup:
        """The group to use: the one asked for, else accelerators before the processor where they suffice.

        Raises ConfigurationError where nothing of that name is here.
        """
        names = ", ".join(f"{group.count} x {group.accelerator}" for group in self.devices)
        known = [group for group in self.devices if accelerator in {None, group.accelerator}]
        if not known:
            raise ConfigurationError(f"the job wants {accelerator!r} and this worker has {names}")
        by_kind = sorted(known, key=lambda group: group.accelerator == "cpu")
        # Processes may share processors, but not accelerators.
        enough = [group for group in by_kind if group.count >= count or group.accelerator == "cpu"]
        if not enough:
            raise ConfigurationError(f"the job wants {count} devices and this worker has {names}")
        return enough[0]

    def document(self) -> dict[str, Any]:
        """As JSON, for `read`."""
        return asdict(self) | {"devices": [group.model_dump(mode="json") for group in self.devices]}

    @classmethod
    def read(cls, document: dict[str, Any]) -> Self:
        """What `document` gave."""
        groups = tuple(DeviceGroup.model_validate(group) for group in document["devices"])
        return cls(**(document | {"devices": groups, "wanted": Wanted.read(document["wanted"])}))


def torch_device(group: DeviceGroup) -> str:
    """How torch calls devices of a group."""
    return "cpu" if group.accelerator == "cpu" else "cuda"
