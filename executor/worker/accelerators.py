"""Which accelerators does torch see? A program: the worker's own process does without torch.

`python -P -m executor.worker.accelerators [NAME]` prints one JSON document: {"devices": [...]} with a group
of equal devices, or {"error": why}. NAME is their data sheet, where the device does not tell it.
"""

import json
import sys
from typing import Any

import torch

from executor.errors import ConfigurationError
from executor.measuring.environment import accelerator_of


def describe(name: str | None) -> dict[str, Any]:
    """The group, or why there is none that could be named."""
    devices = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    if not devices:
        return {"devices": []}
    try:
        names = {name or accelerator_of(device) for device in devices}
    except ConfigurationError as error:
        return {"error": str(error)}
    if len(names) > 1:
        return {
            "error": f"this machine has {' and '.join(sorted(names))}: start a worker for each kind, with "
            "CUDA_VISIBLE_DEVICES"
        }
    memory = min(torch.cuda.get_device_properties(device).total_memory for device in devices)
    return {"devices": [{"accelerator": names.pop(), "count": len(devices), "memory_bytes": memory}]}


if __name__ == "__main__":
    json.dump(describe(sys.argv[1] if len(sys.argv) > 1 else None), sys.stdout)
