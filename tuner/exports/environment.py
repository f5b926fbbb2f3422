"""How does a job script read the choice? As environment variables, one `export NAME=value` a line.

A Slurm TaskProlog applies such lines as they stand and removes no quotes, so values are plain words.
"""

import re

from tuner.exports.errors import NotExpressibleError
from tuner.plan import Chosen, Plan

_PLAIN = re.compile(r"[A-Za-z0-9_.,-]+")


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
    return "".join(f"export CHIMERA_{name}={_plain(name, value)}\n" for name, value in values.items())


def _plain(name: str, value: object) -> str:
    text = str(value)
    if not _PLAIN.fullmatch(text):
        raise NotExpressibleError(f"{name.lower()} {text[:60]!r} is not a plain word; use the json export")
    return text
