"""Which line starts the choice on our own executor? For torchrun of PyTorch 2.13 (2026).

Options: docs.pytorch.org/docs/stable/elastic/run.html.
"""

from tuner.exports.processes import SCRIPT, heading, nodes_of, on_gpus, training_flags
from tuner.plan import Chosen, Plan

RELEASE = "torchrun of PyTorch 2.13, 2026"


def write_torchrun(plan: Plan, chosen: Chosen) -> str:
    """One command for a shell, the same on every node."""
    nodes = nodes_of(plan, chosen)
    lines = [f"# {heading(plan, chosen, RELEASE)}"]
    if nodes.number == 1:
        start = [f"torchrun --standalone --nproc-per-node {nodes.each}"]
    else:
        lines.append(f"# Run it on each of {nodes.number:,} nodes, with HEAD the name of one of them.")
        start = [
            "torchrun",
            f"--nnodes {nodes.number}",
            f"--nproc-per-node {nodes.each}",
            "--rdzv-backend c10d",
            "--rdzv-id chimera",
            '--rdzv-endpoint "$HEAD:29500"',
        ]
    if nodes.last != nodes.each:
        lines.append(f"# On one of them with --nproc-per-node {nodes.last}: the processes do not fill all.")
    if not on_gpus(plan):
        lines.append("# Processes compute on the CPU and talk over gloo.")
    command = [*start, SCRIPT, *training_flags(plan, chosen)]
    return "\n".join([*lines, " \\\n  ".join(command)]) + "\n"
