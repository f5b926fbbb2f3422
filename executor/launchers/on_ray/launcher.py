"""How does a caller run a launch on Ray? It asks a keeper, the Ray driver, so that it loads no Ray itself."""

from __future__ import annotations

import json

from executor.launchers.asking import Tell, ask
from executor.launchers.findings import read_findings
from executor.launchers.gangs.keeper import END_S, for_cluster, longest_s
from executor.launchers.launch import Launch
from executor.launchers.launcher import Wanted
from executor.launchers.outcome import Outcome


class RayLauncher:
    """`executor.launchers.launcher.Launcher` for Ray."""

    is_here = False

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted

    def run(self, launch: Launch, tell: Tell | None = None) -> Outcome:
        """Ray ends what belongs to a driver that is gone: nothing is left if all of this is killed."""
        launch = for_cluster(launch, self._wanted)
        told = ask(
            "executor.launchers.on_ray.keeper",
            launch,
            within_s=longest_s(launch, self._wanted),
            end_s=END_S,
            arguments=[json.dumps(self._wanted.document())],
            tell=tell,
        )
        return read_findings(told, launch)
