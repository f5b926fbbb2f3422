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
            "# Jobs that share a node must not share a port.",
            "PORT=$((29500 + 1${SLURM_JOB_ID##*[!0-9]} % 1000))",
            f'export HEAD PORT TRAIN="${{TRAIN:-{SCRIPT}}}"',
            "",
            "# Each node starts its share of the processes; the last may hold fewer.",
            "# Slurm 22.05 to 23.02 forget on the way from sbatch to srun how many CPUs a task has.",
            "exec srun --kill-on-bad-exit=1 \\",
            '  ${SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"} sh -c \'',
            f"  left=$(({world} - SLURM_NODEID * {nodes.each}))",
            f"  mine=$((left < {nodes.each} ? left : {nodes.each}))",
            f'  exec torchrun --nnodes {nodes.number} --nproc-per-node "$mine" \\',
            '    --rdzv-backend c10d --rdzv-id "$SLURM_JOB_ID" --rdzv-endpoint "$HEAD:$PORT" \\',
            '    "$TRAIN" \\',
            f'    {flags} "$@"',
            '\' chimera "$@"',
            "",
        ]
    )
