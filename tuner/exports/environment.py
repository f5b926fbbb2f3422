"""How does a job script read the choice? As environment variables, one `export NAME=value` a line.

A Slurm TaskProlog applies such lines as they stand and removes no quotes, so values are plain words.
"""

from tuner.exports.words import require_plain
from tuner.plan import Chosen, Plan


def write_environment(plan: Plan, chosen: Chosen) -> str:
    """The choice as `export CHIMERA_WIDTH=8` lines."""
    values = {
        "SCHEDULE": chosen.schedule,
        "WIDTH": chosen.width,
        "DEPTH": chosen.depth,
        "DEVICES": chosen.width * chosen.depth,
        "IDLE_DEVICES": plan.idle_devices,
        "MICRO_BATCH_SIZE": chosen.micro_batch_size,
        "MICRO_BATCHES": chosen.micro_batches,
        "MINI_BATCH_SIZE": chosen.micro_batch_size * chosen.micro_batches * chosen.width,
        "RECOMPUTE": chosen.recompute,
        "SCALING": chosen.scaling,
        "PIPE_PAIRS": chosen.pipe_pairs,
        "CHUNKS": chosen.chunks,
        "STAGE_LAYERS": ",".join(map(str, chosen.stage_layers)),
        "SEQUENCE_LENGTH": plan.model.sequence_length,
        "PRECISION": plan.model.precision,
        "OPTIMIZER_SHARDING": plan.request["optimizer_sharding"],
    }
    if chosen.compression != "none":
        values["COMPRESSION"] = chosen.compression
    return "".join(
        f"export CHIMERA_{name}={require_plain(name.lower(), str(value))}\n" for name, value in values.items()
    )
