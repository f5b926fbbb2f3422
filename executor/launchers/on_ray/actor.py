"""What holds a place on a Ray cluster? An actor, in which the place's process hangs by its lifeline.

The nodes of the cluster import this module: it needs neither Ray nor torch to be loaded.
"""

from typing import Any

from executor.launchers.gangs.place_process import PlaceProcess


class PlaceActor:
    """One rank; its methods are called from afar."""

    def __init__(self, launch: str, rank: int) -> None:
        from ray.util import get_node_ip_address

        self._place = PlaceProcess(launch, rank, address=get_node_ip_address())

    def look(self) -> dict[str, Any]:
        """What the place has said last, and how it `ended`, if it has."""
        return self._place.said | {"ended": self._place.ended}

    def begin(self, address: str, port: int) -> None:
        """Start the rank."""
        self._place.begin(address, port)

    def end(self) -> None:
        """End the rank; nothing of it is left then."""
        self._place.end()
