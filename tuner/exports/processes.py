"""On how many nodes are the processes of the choice started, and with which flags of the training script?

The script is `examples/train_gpt.py`, or one of the user's that reads the same flags.
"""

from typing import NamedTuple

from tuner.exports.words import require_plain
from tuner.plan import Candidate, Plan

SCRIPT = "examples/train_gpt.py"


class Nodes(NamedTuple):
    """W·D processes on nodes of `each`; the last may hold fewer."""

    number: int
    each: int
    last: int


def nodes_of(plan: Plan, candidate: Candidate) -> Nodes:
    """As few nodes as there must be, the first ones full."""
    world = candidate.width * candidate.depth
    each = min(world, plan.cluster.devices_per_node)
    number = -(-world // each)
    return Nodes(number, each, world - (number - 1) * each)


def on_gpus(plan: Plan) -> bool:
    """Whether the accelerator is one that a scheduler counts."""
    return plan.cluster.accelerator != "cpu"


def heading(plan: Plan, candidate: Candidate, release: str) -> str:
    """Of what plan an export is, and for which release of what runs it; one line."""
    world = candidate.width * candidate.depth
    told = (
        f"{plan.model.name}: {candidate.schedule}, W={candidate.width} x D={candidate.depth} = {world:,} x "
        f"{plan.cluster.accelerator}, {candidate.predicted.throughput_samples_per_s:,.1f} samples/s. "
        f"For {release}."
    )
    # A name may hold line breaks, and a comment must not end early.
    return " ".join(told.split())


def training_flags(plan: Plan, candidate: Candidate) -> list[str]:
    """The choice as flags of the training script; of those with a default, the ones that differ from it."""
    flags = {
        "schedule": candidate.schedule,
        "width": candidate.width,
        "depth": candidate.depth,
        "micro-batch-size": candidate.micro_batch_size,
        "micro-batches": candidate.micro_batches,
        "stage-layers": ",".join(map(str, candidate.stage_layers)),
        "precision": plan.model.precision,
        "device": "cuda" if on_gpus(plan) else "cpu",
    }
    others = {
        "recompute": (candidate.recompute, "none"),
        "scaling": (candidate.scaling, "direct"),
        "pipe-pairs": (candidate.pipe_pairs, 1),
        "chunks": (candidate.chunks, 1),
        "optimizer-sharding": (plan.request["optimizer_sharding"], "none"),
        "compression": (candidate.compression, "none"),
        "gradient-precision": (plan.request["gradient_precision"], "float32"),
    }
    flags |= {name: value for name, (value, default) in others.items() if value != default}
    return [f"--{name} {require_plain(name, str(value))}" for name, value in flags.items()]
