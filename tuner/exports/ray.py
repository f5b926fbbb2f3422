"""Which program starts the choice on a Ray cluster? For Ray 2.60 (November 2026).

Ray reserves whole nodes' shares in one placement group, and a task on each starts torchrun there.
Documentation: docs.ray.io, "Placement groups" and "Ray Jobs CLI".
"""

from tuner.exports.processes import SCRIPT, heading, nodes_of, on_gpus, training_flags
from tuner.exports.torchrun import RELEASE as TORCHRUN
from tuner.plan import Chosen, Plan

RELEASE = f"Ray 2.60, November 2026, and {TORCHRUN}"

_PROGRAM = '''\
import os
import shlex
import subprocess
import sys

import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

PROCESSES = {processes}
TRAIN = os.environ.get("TRAIN", "{script}")
FLAGS = shlex.split("""
{flags}
""")


@ray.remote(max_retries=0)
def address():
    """The head's address, and a port that is free there."""
    import socket

    with socket.socket() as free:
        free.bind(("", 0))
        return ray.util.get_node_ip_address(), free.getsockname()[1]


@ray.remote(max_retries=0)
def start(node, head, port, more):
    """Start the processes of one node; torchrun ends them all when one fails."""
    where = ["--nnodes", len(PROCESSES), "--node-rank", node, "--nproc-per-node", PROCESSES[node]]
    meeting = ["--master-addr", head, "--master-port", port]
    command = [sys.executable, "-m", "torch.distributed.run", *where, *meeting, TRAIN, *FLAGS, *more]
    subprocess.run([str(word) for word in command], check=True)


def main():
    """Reserve the devices, all or none, and train."""
    ray.init()
    group = placement_group([{{"{resource}": count}} for count in PROCESSES], strategy="{strategy}")
    ray.get(group.ready())

    def on(node):
        strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=node)
        return {{"scheduling_strategy": strategy, "num_cpus": {cpus}}}

    head, port = ray.get(address.options(**on(0)).remote())
    told = (head, port, sys.argv[1:])
    ray.get([start.options(**on(node){gpus}).remote(node, *told) for node in range(len(PROCESSES))])


if __name__ == "__main__":
    main()
'''


def write_ray(plan: Plan, chosen: Chosen) -> str:
    """A program for `ray job submit`; its arguments are passed on to the training script."""
    nodes = nodes_of(plan, chosen)
    processes = [nodes.each] * (nodes.number - 1) + [nodes.last]
    program = _PROGRAM.format(
        processes=processes,
        script=SCRIPT,
        flags="\n".join(training_flags(plan, chosen)),
        resource="GPU" if on_gpus(plan) else "CPU",
        strategy="STRICT_SPREAD" if nodes.number > 1 else "STRICT_PACK",
        cpus=0 if on_gpus(plan) else 1,
        gpus=", num_gpus=PROCESSES[node]" if on_gpus(plan) else "",
    )
    usage = "# ray job submit --working-dir . -- python chimera_job.py"
    return f"# {heading(plan, chosen, RELEASE)}\n{usage}\n{program}"
