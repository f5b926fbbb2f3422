"""What is known by name? The shipped models, accelerators, clusters, schedules, with a few facts."""

from functools import cache
from typing import Any

from profiles import library
from tuner.exports import FORMATS
from tuner.schedules import SCHEMES


@cache
def catalogue() -> dict[str, list[dict[str, Any]]]:
    """Everything that a request can name."""
    return {
        "models": _models(),
        "accelerators": _accelerators(),
        "clusters": _clusters(),
        "schedules": [{"name": name, "synchronous": scheme.synchronous} for name, scheme in SCHEMES.items()],
        "export_formats": [{"name": name} for name in FORMATS],
    }


def _models() -> list[dict[str, Any]]:
    presets = [library.load_model_preset(name) for name in library.names("models")]
    return [
        {
            "name": preset.name,
            "description": preset.description,
            "sequence_length": preset.sequence_length,
            "precision": preset.precision,
            "attention": preset.attention,
        }
        for preset in presets
    ]


def _accelerators() -> list[dict[str, Any]]:
    sheets = [library.load_accelerator(name) for name in library.names("devices")]
    return [
        {
            "name": sheet.name,
            "vendor": sheet.vendor,
            "memory_bytes": sheet.memory_bytes,
            "memory_bandwidth_bytes_per_s": sheet.memory_bandwidth_bytes_per_s,
            "peak_flops": dict(sheet.peak_flops),
        }
        for sheet in sheets
    ]


def _clusters() -> list[dict[str, Any]]:
    clusters = [library.load_cluster(name) for name in library.names("clusters")]
    return [
        {
            "name": cluster.name,
            "description": cluster.description,
            "accelerator": cluster.node.accelerator,
            "devices_per_node": cluster.node.devices,
            "max_devices": cluster.max_devices,
        }
        for cluster in clusters
    ]
