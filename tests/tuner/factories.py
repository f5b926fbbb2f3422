"""What is asked in the tests of the tuner? Requests, models, timings and clusters, small and by hand."""

from dataclasses import dataclass
from typing import Any

from profiles import library
from profiles.cluster import ClusterProfile, Link, Node, Software, Transfer
from profiles.device import Accelerator
from profiles.model import ModelDescription
from profiles.preset import ModelPreset
from profiles.timings import LayerTimings, Profile
from tests.profiles import factories as documents
from tuner.inputs import Library
from tuner.plan import Plan
from tuner.planning import answer
from tuner.request import PlanRequest, read_request

GB = 1_000_000_000


def make_request(**options: Any) -> PlanRequest:
    """A request for tiny-gpt on eight H100, with `options` instead."""
    return read_request(
        {"model": "tiny-gpt", "cluster": "dgx-h100", "devices": 8, "mini_batch_size": 64} | options
    )


def make_plan(*, profile: Profile | None = None, shelf: Library | None = None, **options: Any) -> Plan:
    """The plan of `make_request(**options)`."""
    if profile is not None:
        options = {"model": {"profile": profile.fingerprint()}} | options
    return answer(make_request(**options), shelf or library, profile=profile)


@dataclass(frozen=True)
class Shelf:
    """The shipped library, with accelerators of another memory size or speed."""

    memory_bytes: int | None = None
    faster: float = 1.0

    def load_accelerator(self, name: str) -> Accelerator:
        sheet = library.load_accelerator(name)
        return sheet.model_copy(
            update={
                "memory_bytes": self.memory_bytes or sheet.memory_bytes,
                "memory_bandwidth_bytes_per_s": sheet.memory_bandwidth_bytes_per_s * self.faster,
                "peak_flops": {key: flops * self.faster for key, flops in sheet.peak_flops.items()},
            }
        )

    def load_model_preset(self, name: str) -> ModelPreset:
        return library.load_model_preset(name)

    def load_cluster(self, name: str) -> ClusterProfile:
        return library.load_cluster(name)

    def load_timings(self) -> tuple[LayerTimings, ...]:
        return library.load_timings()


def gpt2(*, blocks: int = 4, hidden: int = 64, vocabulary: int = 100, tied: bool = True) -> dict[str, Any]:
    """The config.json of a small GPT-2 of up to 4,096 positions."""
    return {
        "model_type": "gpt2",
        "n_layer": blocks,
        "n_embd": hidden,
        "n_head": 4,
        "vocab_size": vocabulary,
        "n_positions": 4096,
        "tie_word_embeddings": tied,
    }


def llama(*, blocks: int = 4, hidden: int = 64, vocabulary: int = 100, tied: bool = False) -> dict[str, Any]:
    """The config.json of a small Llama with grouped queries."""
    return {
        "model_type": "llama",
        "num_hidden_layers": blocks,
        "hidden_size": hidden,
        "intermediate_size": 3 * hidden,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": vocabulary,
        "tie_word_embeddings": tied,
    }


def make_profile(
    *points: tuple[int, float, float], blocks: int = 8, accelerator: str = "h100-80gb", **layer: Any
) -> Profile:
    """A measured profile of equal blocks and nothing else, so that even stages cost exactly the same.

    points: (micro-batch size, forward seconds, backward seconds) of a block; layer: fields of each block.
    """
    layers = [documents.layer(f"layers.{index}", **layer) for index in range(blocks)]
    timed = [
        {"micro_batch_size": size, "forward_s": forward, "backward_s": backward}
        for size, forward, backward in points
    ]
    return Profile.from_value(
        {
            "schema_version": 1,
            "description": documents.description(*layers),
            "timings": documents.timings(
                accelerator=accelerator,
                types=[{"type": "block", "provenance": "measured", "points": timed}],
            ),
        }
    )


def make_description(profile: Profile) -> ModelDescription:
    """The description within a profile."""
    return profile.description


def make_cluster(
    *,
    node_devices: int = 1,
    p2p: tuple[float, float] = (0.0, 1e30),
    collective: tuple[float, float] = (0.0, 1e30),
    inside_p2p: tuple[float, float] | None = None,
    inside_collective: tuple[float, float] | None = None,
    accelerator: str = "h100-80gb",
    **software: Any,
) -> ClusterProfile:
    """A cluster of (latency in s, bandwidth in B/s) links; by default messages take no time."""
    inside = None
    if inside_p2p or inside_collective:
        inside = _link(inside_p2p or (0.0, 1e30), inside_collective or (0.0, 1e30))
    values: dict[str, Any] = {
        "name": "none",
        "framework_bytes": 0,
        "provenance": "estimated",
        "source": "by hand",
    }
    return ClusterProfile(
        name="by-hand",
        node=Node(accelerator=accelerator, devices=node_devices, link=inside),
        link=_link(p2p, collective),
        software=Software(**(values | software)),
    )


def _link(p2p: tuple[float, float], collective: tuple[float, float]) -> Link:
    return Link(
        p2p=_transfer(p2p), collective=_transfer(collective), provenance="estimated", source="by hand"
    )


def _transfer(link: tuple[float, float]) -> Transfer:
    return Transfer(latency_s=link[0], bandwidth_bytes_per_s=link[1])


def inline(cluster: ClusterProfile) -> dict[str, Any]:
    """A cluster as a request carries it."""
    return {"document": cluster.model_dump(mode="json", exclude_none=True)}
