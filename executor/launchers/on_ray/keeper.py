"""Who is the Ray driver of a run? A keeper that is started with CALLER LAUNCH SCRATCH WANTED.

It holds a placement group, which gives all ranks their places at once or none, with an actor for each rank.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group

from executor.launchers.gangs.gang import Ended, attend
from executor.launchers.gangs.keeper import Caller, UnplacedError, keep
from executor.launchers.gangs.room import most_places, tell_room
from executor.launchers.gangs.seen import Document
from executor.launchers.launch import Launch
from executor.launchers.on_ray.places import RayPlaces, ray_nodes
from executor.launchers.outcome import Status
from executor.launchers.wanted import Wanted

_TELL_S = 30.0
_CONNECT_S = 30.0
_PROBE_S = 10.0


def run(launch: Launch, wanted: Wanted, caller: Caller) -> Document:
    """Wait for places, run the gang, and give its places back."""
    each = {"CPU": float(wanted.cpus_per_rank), "GPU": float(wanted.gpus_of(launch))}
    with _connected(wanted, caller), _placed(launch, wanted, each, caller=caller) as group:
        places = RayPlaces(launch, group, wanted=each)
        try:
            return attend(places, launch, wait=caller.wait)
        finally:
            places.end()


@contextmanager
def _connected(wanted: Wanted, caller: Caller) -> Iterator[None]:
    address = wanted.ray_address or os.environ.get("RAY_ADDRESS") or "auto"
    _probe(address)
    connected = threading.Event()
    threading.Thread(target=_guard, args=[connected, address, caller], daemon=True).start()
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise UnplacedError(
            Status.FAILED, f"no Ray cluster answers at {address!r}: {str(error).strip()[:500]}"
        ) from None
    finally:
        connected.set()
    try:
        yield
    finally:
        ray.shutdown()


def _probe(address: str) -> None:
    """Ray tries for long where nobody listens; raises UnplacedError."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or "/" in host:
        return
    try:
        socket.create_connection((host, int(port)), timeout=_PROBE_S).close()
    except (OSError, OverflowError) as error:
        raise UnplacedError(Status.FAILED, f"no Ray cluster answers at {address!r}: {error}") from None


def _guard(connected: threading.Event, address: str, caller: Caller) -> None:
    """Ray waits without end for a cluster that is gone: end this process, of which nothing is left."""
    deadline = time.monotonic() + _CONNECT_S
    while not connected.wait(0.5):
        if caller.cut:
            caller.leave()
            os._exit(1)
        if time.monotonic() > deadline:
            message = f"the Ray cluster at {address!r} did not answer within {_CONNECT_S:g} s: is it running?"
            caller.say_ended(Ended(Status.FAILED, message))
            caller.leave()
            os._exit(0)


@contextmanager
def _placed(
    launch: Launch, wanted: Wanted, each: dict[str, float], *, caller: Caller
) -> Iterator[PlacementGroup]:
    caller.listen()  # Ray took the signals
    nodes = ray_nodes()
    if most_places(nodes, each) < launch.ranks:
        raise UnplacedError(
            Status.FAILED,
            f"{tell_room(nodes, ranks=launch.ranks, wanted=each)}. Add nodes, or run a smaller configuration",
        )
    asked = {name: amount for name, amount in each.items() if amount}
    group = placement_group([asked] * launch.ranks, strategy=wanted.ray_strategy)
    try:
        _wait(group, launch, each, limit_s=wanted.queue_limit_s, caller=caller)
        yield group
    finally:
        remove_placement_group(group)


def _wait(
    group: PlacementGroup, launch: Launch, each: dict[str, float], *, limit_s: float, caller: Caller
) -> None:
    begun = time.monotonic()
    tell_at = begun + 1.0
    while not group.wait(0.1):
        now = time.monotonic()
        room = tell_room(ray_nodes(), ranks=launch.ranks, wanted=each)
        if now - begun > limit_s:
            raise UnplacedError(
                Status.TIMED_OUT,
                f"the Ray cluster had no room within {limit_s:g} s, which --queue-timeout allows: {room}",
            )
        if now > tell_at:
            tell_at = now + _TELL_S
            caller.say(waits=f"Ray has no room yet: {room}")
        caller.wait(0.2)


if __name__ == "__main__":
    sys.exit(keep(run))
