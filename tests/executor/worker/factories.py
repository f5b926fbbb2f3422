"""What do the worker's tests need? Jobs as the service gives them, and a place to do them."""

from typing import Any

from executor.worker.surroundings import Surroundings
from tuner.messages import DeviceGroup, Job, JobKind

CPU = DeviceGroup(accelerator="cpu", count=2, memory_bytes=4 * 10**9)
EMULATED: dict[str, Any] = {
    "model": "tiny-gpt",
    "emulate": {"forward_s": 0.002, "backward_s": 0.004},
    "configuration": {
        "schedule": "chimera", "width": 1, "depth": 2, "micro_batch_size": 1, "micro_batches": 4,
    },
    "iterations": 3,
    "warm_up": 1,
}  # fmt: skip
TINY: dict[str, Any] = {
    "config": {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 64, "n_positions": 16,
        "n_embd": 16, "n_layer": 2, "n_head": 2,
    }
}  # fmt: skip


def here(**changes: Any) -> Surroundings:
    """Two processors, and hardly any time for each layer."""
    known: dict[str, Any] = {"devices": (CPU,), "budget_s": 0.01}
    return Surroundings(**(known | changes))


def job_of(kind: JobKind, payload: dict[str, Any]) -> Job:
    """A job under a lease."""
    return Job(
        id="0" * 26, kind=kind, attempt=1, max_attempts=3, token="0" * 32, lease_s=30, heartbeat_s=5,
        payload=payload,
    )  # fmt: skip
