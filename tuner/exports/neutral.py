"""How does a program without a format of its own read the choice? As one small JSON document."""

from profiles.document import canonical_json
from tuner.plan import Chosen, Plan


def write_neutral(plan: Plan, chosen: Chosen) -> str:
    """The choice, what it was made for and what it promises, without the alternatives."""
    document = {
        "schema_version": 1,
        "model": plan.model.model_dump(mode="json"),
        "cluster": plan.cluster.model_dump(mode="json"),
        "configuration": chosen.model_dump(mode="json", exclude={"predicted", "memory", "peak_memory_bytes"}),
        "mini_batch_size": chosen.micro_batch_size * chosen.micro_batches * chosen.width,
        "devices": chosen.width * chosen.depth,
        "idle_devices": plan.idle_devices,
        "optimizer": plan.request["optimizer"],
        "optimizer_sharding": plan.request["optimizer_sharding"],
        "gradient_precision": plan.request["gradient_precision"],
        "predicted": chosen.predicted.model_dump(mode="json"),
        "peak_memory_bytes": chosen.peak_memory_bytes,
        "hashes": plan.provenance.hashes,
    }
    return canonical_json(document) + "\n"
