"""What was asked? Every option of a request by its name for people, and its value in words."""

from collections.abc import Mapping
from typing import Any

from api.reports.quantities import schedule

LABELS = {
    "model": "Model",
    "sequence_length": "Sequence length",
    "cluster": "Cluster",
    "accelerator": "Accelerator",
    "devices": "Devices",
    "mini_batch_size": "Mini-batch",
    "precision": "Precision",
    "gradient_precision": "Gradients in",
    "optimizer": "Optimizer",
    "optimizer_sharding": "Optimizer state divided over",
    "attention": "Attention",
    "recompute": "Recomputation allowed",
    "margin": "Memory kept free",
    "device_memory_bytes": "Memory of each device, assumed, bytes",
    "link_bandwidth_factor": "Bandwidth of links, times",
    "schedules": "Schedules allowed",
    "runs_on": "Runs on",
    "partition": "Stages",
    "width": "Width W pinned",
    "depth": "Depth D pinned",
    "micro_batch_size": "Micro-batch B pinned",
    "search": "Search",
    "compression": "Compression of gradients",
    "rank_order": "Order of ranks",
    "offload": "Offload",
    "tensor_parallel": "Tensor-parallel size",
    "context_parallel": "Context-parallel size",
    "expert_parallel": "Expert-parallel size",
    "calibration": "Calibration",
    "why": "Why not",
}
"""Options in the order in which people think of them; `top` only shortens a list."""
_SHORT = 12


def asked(request: Mapping[str, Any]) -> dict[str, str]:
    """The options of a request that have a value, in words."""
    return {key: _words(key, request[key]) for key in LABELS if request.get(key) is not None}


def model_of(model: Any) -> str:
    """A model as a request names it."""
    if not isinstance(model, dict):
        return str(model)
    if "profile" in model:
        return f"profile {str(model['profile'])[:_SHORT]}…"
    return str(model.get("name") or "a config.json")


def _words(key: str, value: Any) -> str:
    match key, value:
        case "model", _:
            return model_of(value)
        case "cluster", {"document": {"name": name}}:
            return f"{name}, a document"
        case "schedules", list() | tuple():
            return ", ".join(schedule(str(name)) for name in value)
        case "calibration", str():
            return f"{value[:_SHORT]}…"
        case "margin", float() | int():
            return f"{100 * value:g}\N{NO-BREAK SPACE}%"
        case _, bool():
            return str(value)
        case _, int():
            return f"{value:,}"
        case _:
            return str(value)
