"""How does a caller run a launch under Slurm? It asks a keeper, which takes the job back in any case."""

from __future__ import annotations

import json

from executor.launchers.asking import Tell, ask
from executor.launchers.findings import read_findings
from executor.launchers.gangs.keeper import END_S, for_cluster, longest_s
from executor.launchers.launch import Launch
from executor.launchers.launcher import Wanted
from executor.launchers.outcome import Outcome


class SlurmLauncher:
    """`executor.launchers.launcher.Launcher` for Slurm."""

    is_here = False

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted

    def run(self, launch: Launch, tell: Tell | None = None) -> Outcome:
        """If keeper and caller are both killed, the job ends itself a minute later."""
        launch = for_cluster(launch, self._wanted)
        told = ask(
            "executor.launchers.on_slurm.keeper",
            launch,
            within_s=longest_s(launch, self._wanted),
            end_s=END_S,
            arguments=[json.dumps(self._wanted.document())],
            tell=tell,
        )
        return read_findings(told, launch)
