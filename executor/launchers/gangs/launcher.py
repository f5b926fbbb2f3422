"""How does a caller run a launch on a cluster? It asks a keeper, and loads nothing of the cluster itself."""

from __future__ import annotations

import json

from executor.launchers.asking import Tell, ask
from executor.launchers.findings import read_findings
from executor.launchers.gangs.keeper import END_S, for_cluster, longest_s
from executor.launchers.launch import Launch
from executor.launchers.outcome import Outcome
from executor.launchers.wanted import Wanted


class GangLauncher:
    """`executor.launchers.launcher.Launcher` for the cluster of a keeper's module.

    Nothing is left if all of this is killed: Ray ends what belongs to a driver that is gone, and a Slurm job
    whose keeper is gone ends itself a minute later.
    """

    is_here = False

    def __init__(self, keeper: str, wanted: Wanted) -> None:
        self._keeper = keeper
        self._wanted = wanted

    def run(self, launch: Launch, tell: Tell | None = None) -> Outcome:
        """Have the keeper run every rank; whatever interrupts this call ends the run."""
        launch = for_cluster(launch, self._wanted)
        told = ask(
            self._keeper,
            launch,
            within_s=longest_s(launch, self._wanted),
            end_s=END_S,
            arguments=[json.dumps(self._wanted.document())],
            tell=tell,
        )
        return read_findings(told, launch)
