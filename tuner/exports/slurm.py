"""Which batch script starts the choice under Slurm? For sbatch of Slurm 25.11 (November 2025).

Options: slurm.schedmd.com/sbatch.html. One task a node starts that node's processes with torchrun.
"""

from tuner.exports.processes import SCRIPT, heading, nodes_of, on_gpus, training_flags
from tuner.exports.torchrun import RELEASE as TORCHRUN
from tuner.plan import Chosen, Plan

RELEASE = f"sbatch of Slurm 25.11, November 2025, and {TORCHRUN}"


def write_slurm(plan: Plan, chosen: Chosen) -> str:
    """A script for sbatch, in POSIX sh; arguments of the job are passed on to the training script."""
    nodes, world = nodes_of(plan, chosen), chosen.width * chosen.depth
    directives = ["--job-name=chimera", f"--nodes={nodes.number}", "--ntasks-per-node=1"]
    directives.append(f"--gpus-per-node={nodes.each}" if on_gpus(plan) else f"--cpus-per-task={nodes.each}")
    flags = " \\\n    ".join(training_flags(plan, chosen))
    return "\n".join(
        [
            "#!/bin/sh",
            f"# {heading(plan, chosen, RELEASE)}",
            *(f"#SBATCH {directive}" for directive in directives),
            "# Add your partition, account and time limit. TRAIN names your script with the same flags.",
            "",
            "set -eu",
            'HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
            f'export HEAD TRAIN="${{TRAIN:-{SCRIPT}}}"',
            "",
            "# Each node starts its share of the processes; the last may hold fewer.",
            "exec srun --kill-on-bad-exit=1 sh -c '",
            f"  left=$(({world} - SLURM_NODEID * {nodes.each}))",
            f"  mine=$((left < {nodes.each} ? left : {nodes.each}))",
            f'  exec torchrun --nnodes {nodes.number} --nproc-per-node "$mine" \\',
            '    --rdzv-backend c10d --rdzv-id "$SLURM_JOB_ID" --rdzv-endpoint "$HEAD:29500" \\',
            '    "$TRAIN" \\',
            f'    {flags} "$@"',
            '\' chimera "$@"',
            "",
        ]
    )
