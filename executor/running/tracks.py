"""How is a program made ready to run on this rank, and how are the shapes of its messages agreed on?"""

from collections.abc import Mapping
from dataclasses import dataclass

from executor.running.assembly import Assembly, Place
from executor.running.batches import Batches
from executor.running.probing import Specs, message_specs, probe_cuts
from executor.running.programs import backward_parts
from executor.running.recording import Unrecorded
from executor.running.runtime import Recorder, Runtime, Updates
from executor.transport import Transport, make_transport
from executor.works import Work
from tuner.schedules.program import Program

_MOST_SHAPES = 16
"""Shapes of micro-batches whose messages are remembered."""


@dataclass
class Track:
    """A program that is ready to run on this rank."""

    program: Program
    runtime: Runtime
    transport: Transport
    parts: int
    """Halves of a micro-batch that have graphs of their own."""
    announced: Specs | None = None
    """The inputs of a mini-batch for whose micro-batches the transport has its buffers' shapes."""


class Tracks:
    """Makes programs ready for the stages of a rank, and remembers what crosses the cuts between them."""

    def __init__(self, assembly: Assembly, works: Mapping[Place, Work], updates: Updates) -> None:
        self._assembly = assembly
        self._works = works
        self._updates = updates
        self._cuts: dict[tuple[Specs, int], list[Specs]] = {}

    def make(self, program: Program, recorder: Recorder | None = None) -> Track:
        """Ready to run; over NCCL every process of the group makes its track at the same time."""
        assembly, rank = self._assembly, self._assembly.layout.rank
        transport = make_transport(
            program,
            rank,
            group_ranks=assembly.layout.own_group,
            device=assembly.device,
            backend=assembly.backend,
            group=assembly.transfers,
            upward=assembly.upward,
        )
        runtime = Runtime(
            program,
            rank,
            works=self._works,
            transport=transport,
            collectives=assembly.synchronizer,
            updates=self._updates,
            recorder=recorder or Unrecorded(),
        )
        return Track(program, runtime, transport, backward_parts(program))

    def announce(self, track: Track, feed: Batches) -> None:
        """Agree on the shapes of all messages, if micro-batches of such shapes have not been seen before."""
        if feed.whole == track.announced:
            return
        track.announced = feed.whole
        inputs = tuple(feed.specs(number) for number in range(track.program.micro_batches))
        cuts = {number: self._leaving(track, arriving) for number, arriving in enumerate(inputs)}
        track.transport.expect(message_specs(track.program, cuts, parts=track.parts))

    def _leaving(self, track: Track, arriving: Specs) -> list[Specs]:
        key = arriving, track.parts
        if key not in self._cuts:
            while len(self._cuts) >= _MOST_SHAPES:
                del self._cuts[next(iter(self._cuts))]
            layout = self._assembly.layout
            self._cuts[key] = probe_cuts(
                track.program,
                layout.rank,
                self._works,
                inputs=arriving,
                parts=track.parts,
                ranks=layout.own_group,
                group=self._assembly.control,
            )
        return self._cuts[key]
