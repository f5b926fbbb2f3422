"""A Ray cluster of several nodes on this machine, in processes of its own, for as long as a block lasts.

`python -P -m tests.system.ray_site FOLDER CPUS...` starts one node for each number, prints the address of the
cluster, and ends it when stdin ends.
"""

import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_READY_S = 120.0
_STORE_BYTES = 80 * 2**20
_LIGHT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_enable_worker_prestart": "0",
    "RAY_memory_monitor_refresh_ms": "0",  # what others do on this machine must not end actors
}


@contextmanager
def ray_site(*cpus: int) -> Iterator[str]:
    """The address of a cluster whose nodes have so many CPUs each."""
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # short, for the names of sockets
    (folder / "ray").mkdir()  # in which Ray writes down where the newest cluster is
    command = [sys.executable, "-P", "-m", "tests.system.ray_site", str(folder), *map(str, cpus)]
    with (folder / "site.log").open("wb") as log:
        site = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=os.environ | _LIGHT | {"TMPDIR": str(folder)},
            start_new_session=True,
        )
    try:
        ready, _, _ = select.select([site.stdout], [], [], _READY_S)
        address = site.stdout.readline().decode().strip() if ready and site.stdout else ""
        if not address:
            raise TimeoutError(f"no Ray cluster came up: {(folder / 'site.log').read_text()[-3000:]}")
        yield address
    finally:
        site.communicate(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Start the nodes, and wait."""
    from ray.cluster_utils import Cluster

    folder, *cpus = sys.argv[1:]
    told = os.dup(1)
    os.dup2(2, 1)  # Ray prints
    cluster = Cluster()
    for number in cpus:
        cluster.add_node(
            num_cpus=int(number),
            object_store_memory=_STORE_BYTES,
            include_dashboard=False,
            temp_dir=f"{folder}/s",
        )
    cluster.wait_for_nodes()
    os.write(told, f"{cluster.address}\n".encode())
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
