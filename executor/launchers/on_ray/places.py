"""Where are the ranks on a Ray cluster, and what do their actors say?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from executor.launchers.gangs.gang import Ended, Heard
from executor.launchers.gangs.room import Node
from executor.launchers.launch import Launch
from executor.launchers.on_ray.actor import PlaceActor

_ANSWER_S = 0.3
_END_S = 8.0
_LONGEST_CAUSE = 600


class RayPlaces:
    """`executor.launchers.gangs.gang.Places`: an actor in each bundle of a placement group."""

    def __init__(self, launch: Launch, group: PlacementGroup, *, wanted: dict[str, float]) -> None:
        text = launch.to_json()
        self._actors = [
            ray.remote(PlaceActor)
            .options(
                num_cpus=wanted["CPU"],
                num_gpus=wanted["GPU"],
                max_restarts=0,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, rank),
            )
            .remote(text, rank)
            for rank in range(launch.ranks)
        ]
        self._heard = [Heard() for _ in self._actors]
        self._asked: dict[Any, int] = {}

    def look(self) -> Sequence[Heard]:
        """Ask all that have answered before, and take what comes within a moment."""
        waiting = set(self._asked.values())
        for rank, actor in enumerate(self._actors):
            if rank not in waiting and self._heard[rank].lost is None:
                self._asked[actor.look.remote()] = rank
        if self._asked:
            asked = list(self._asked)
            for answer in ray.wait(asked, num_returns=len(asked), timeout=_ANSWER_S)[0]:
                rank = self._asked.pop(answer)
                self._heard[rank] = _hear(answer, self._heard[rank])
        return self._heard

    def begin(self, address: str, port: int) -> None:
        """Start all ranks."""
        for actor in self._actors:
            actor.begin.remote(address, port)

    def ended(self) -> Ended | None:
        """Ray loses actors one by one, never a gang as a whole."""
        return None

    def end(self) -> None:
        """End all ranks and actors."""
        with suppress(RayError, GetTimeoutError):
            ended = [actor.end.remote() for actor in self._actors]
            ray.wait(ended, num_returns=len(ended), timeout=_END_S)
        for actor in self._actors:
            ray.kill(actor)


def _hear(answer: Any, before: Heard) -> Heard:
    try:
        said = ray.get(answer)
    except RayActorError as error:
        return replace(before, lost=f"its actor died: {_shorten(error)}")
    except RayError as error:
        return replace(before, lost=f"its actor does not answer: {_shorten(error)}")
    return Heard(
        at_ns=time.monotonic_ns(),
        here=said.get("here"),
        seen=said.get("seen"),
        result=said.get("result"),
        lost=said["ended"] if "result" not in said else None,
    )


def _shorten(error: Exception) -> str:
    words = " ".join(str(error).split())
    return words if len(words) <= _LONGEST_CAUSE else words[: _LONGEST_CAUSE - 3] + "..."


def ray_nodes() -> list[Node]:
    """The nodes that are alive, with what they have and what is free."""
    free = _free_by_node()
    return [
        Node(
            node["NodeManagerHostname"] + ":" + node["NodeID"][:6],
            _devices(node["Resources"]),
            _devices(free.get(node["NodeID"], {})),
        )
        for node in ray.nodes()
        if node["Alive"]
    ]


def _free_by_node() -> dict[str, dict[str, float]]:
    # Ray tells what is free on each node nowhere else.
    from ray._private.state import available_resources_per_node

    found: dict[str, dict[str, float]] = available_resources_per_node()
    return found


def _devices(resources: dict[str, float]) -> dict[str, float]:
    return {name: resources.get(name, 0.0) for name in ("CPU", "GPU")}
