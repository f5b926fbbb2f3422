"""What is the parent of a placed rank? A process that prepares, forks the rank, and hands on its result.

`python -P -m executor.launchers.gangs.placed_rank PARENT LAUNCH AREA ANSWER`: the id of the parent process
and the paths of three memory files; which rank it is stands in the variable RANK.
"""

import sys
from pathlib import Path

from executor.launchers.processes import die_with_parent
from executor.launchers.rank_process import rank_main

if __name__ == "__main__":
    parent, launch, area, answer = sys.argv[1:]
    die_with_parent(int(parent))
    Path(answer).write_text(rank_main(launch, area), encoding="utf-8")
