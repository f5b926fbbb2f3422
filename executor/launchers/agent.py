"""Who starts the ranks? A process of its own, so that whoever waits for it can end it whatever it hangs on.

`python -P -m executor.launchers.agent PARENT LAUNCH AREA ANSWER`: the id of the parent process, and the paths
of three memory files.
"""

import gc
import json
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from executor.launchers.launch import read_launch
from executor.launchers.processes import die_with_parent


def main() -> None:
    """Run the ranks and write the answer; the exit code is that of Python."""
    parent, launch, area, answer = sys.argv[1:]
    die_with_parent(int(parent))
    gc.disable()
    from executor.launchers.elastic import run_ranks
    from executor.launchers.fork_server import start_fork_server

    for module in read_launch(launch).preload:
        with suppress(Exception):  # the ranks will say what is wrong with it
            import_module(module)
    gc.freeze()  # what was loaded is no garbage: ranks need not look through it
    gc.enable()
    start_fork_server()
    Path(answer).write_text(json.dumps(run_ranks(launch, area)), encoding="utf-8")


if __name__ == "__main__":
    main()
