"""What does a small sound document look like? Plain JSON values to start a test from."""

from typing import Any


def layer(name: str = "layers.0", *, kind: str = "block", **changes: Any) -> dict[str, Any]:
    """A layer as JSON; `changes` replace its fields."""
    size = {"per_sample": 1_000}
    return {
        "name": name,
        "type": kind,
        "kind": kind,
        "parameters": 100,
        "active_parameters": 100,
        "forward_flops": 2_000,
        "backward_flops": 4_000,
        "activation_bytes": size,
        "transient_bytes": size,
        "cut_bytes": size,
        **changes,
    }


def description(*layers: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A model description as JSON, of two blocks unless `layers` are given."""
    return {
        "name": "small",
        "family": "gpt2",
        "sequence_length": 64,
        "precision": "float32",
        "attention": "eager",
        "hidden_size": 16,
        "vocabulary_size": 100,
        "layers": list(layers) or [layer("layers.0"), layer("layers.1")],
        **changes,
    }


def timings(*sizes: int, **changes: Any) -> dict[str, Any]:
    """Layer timings of blocks as JSON, at micro-batch `sizes`."""
    points = [
        {"micro_batch_size": size, "forward_s": 0.001 * size, "backward_s": 0.002 * size}
        for size in sizes or (1, 2)
    ]
    return {
        "name": "small-on-cpu",
        "accelerator": "cpu",
        "software": "pytorch",
        "precision": "float32",
        "attention": "eager",
        "sequence_length": 64,
        "types": [{"type": "block", "provenance": "measured", "points": points}],
        **changes,
    }


def measurement(**changes: Any) -> dict[str, Any]:
    """A measurement as JSON, that of one run which ended well."""
    return {
        "model": "bert-48",
        "cluster": "piz-daint",
        "devices": 32,
        "sequence_length": 128,
        "precision": "float32",
        "configuration": {
            "schedule": "chimera",
            "width": 8,
            "depth": 4,
            "micro_batch_size": 8,
            "mini_batch_size": 512,
        },
        "status": "ok",
        "throughput_samples_per_s": 100.0,
        **changes,
    }
