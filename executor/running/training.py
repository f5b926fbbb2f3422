"""How does one rank run mini-batch after mini-batch? Programs, messages and losses of its pipeline."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist

from executor.errors import ConfigurationError
from executor.running.assembly import Assembly, Place
from executor.running.batches import Batch, Batches
from executor.running.probing import Specs, message_specs, probe_cuts
from executor.running.recording import Recording, count_events
from executor.running.runtime import Recorder, Runtime
from executor.stages.seeding import kept_random_state
from executor.transport import Transport, make_transport
from executor.values import specs_of
from executor.weights.holdings import RankWeights
from executor.weights.updating import Updater
from tuner.schedules.program import Columns, Kind, Op, Program

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
    ends: list[tuple[Place, Op]]
    """The forwards of this rank that give a loss."""
    announced: tuple[Specs, ...] = ()
    """The inputs of every micro-batch for which the transport has its buffers' shapes."""


class Training:
    """Runs programs on an assembly; what can be known ahead is kept for the next mini-batch."""

    def __init__(self, assembly: Assembly, recorder: Recorder | None = None) -> None:
        """`recorder` is for the program of one iteration; times are kept and dropped unless given."""
        self._assembly = assembly
        self._recorder = recorder
        self._tracks: dict[tuple[int, bool], Track] = {}
        """By iterations, and whether the weights are updated."""
        self._cuts: dict[tuple[Specs, int], list[Specs]] = {}
        self._accumulated = False
        """Gradients of an earlier mini-batch are waiting for an update."""
        self.iteration = 0
        """Mini-batches seen."""
        self.updater = Updater(
            assembly.weights,
            assembly.synchronizer,
            groups=assembly.groups,
            rank=assembly.number,
            program=assembly.program,
            max_norm=assembly.settings.clip_norm,
            versioned={place: stage.update for place, stage in assembly.versioned.items()},
        )

    @property
    def weights(self) -> RankWeights:
        """What this rank holds."""
        return self._assembly.weights

    @property
    def on_cuda(self) -> bool:
        """Whether computation goes on behind the program's back."""
        return self._assembly.device.type == "cuda"

    @property
    def synchronous(self) -> bool:
        """Whether every mini-batch is a program of its own."""
        return self._assembly.program.synchronous

    def rounds(self, batches: Sequence[Batch]) -> list[list[Batch]]:
        """The mini-batches of every program: an asynchronous schedule runs all of them without a flush.

        But for PipeMare's first steps, which are synchronous (T3): alone in their programs.
        """
        if self.synchronous:
            return [[batch] for batch in batches]
        alone = max(0, self._assembly.settings.pipemare_warm_up_steps - self.iteration)
        if self._assembly.configuration.schedule != "pipemare":
            alone = 0
        rest = list(batches[alone:])
        return [*([batch] for batch in batches[:alone]), *([rest] if rest else [])]

    def run(self, batches: Sequence[Batch], *, update: bool = True) -> Batches:
        """Forward, backward and update of the mini-batches of one round."""
        if not self.synchronous and not update:
            raise ConfigurationError(
                f"{self._assembly.configuration.schedule} updates its weights as it goes: gradients "
                "cannot be added up over mini-batches"
            )
        assembly = self._assembly
        track = self.track(len(batches), update=update)
        feed = Batches(
            batches,
            micro_batches=assembly.configuration.micro_batches,
            width=assembly.configuration.width,
            group=assembly.layout.group,
            count=assembly.loss.count,
            first_iteration=self.iteration,
            device=assembly.device,
        )
        self.announce(track, feed)
        if not self._accumulated:
            assembly.weights.zero()
        for versioned in assembly.versioned.values():
            versioned.restart()
        for stage in assembly.stages.values():
            stage.forget()
            stage.loss_scale = self.updater.loss_factor
        with kept_random_state():
            track.runtime.run(feed)
        if update:
            self.updater.finish()
        assembly.statistics.merge()
        self._accumulated = not update
        self.iteration += len(batches)
        return feed

    def losses(self, feed: Batches) -> list[float]:
        """The mean loss of every mini-batch of a round, the same on all ranks.

        Σ n_m·loss_m / Σn, added up in the order of the micro-batches whatever the schedule.
        """
        values = torch.zeros((feed.iterations, feed.pieces), dtype=torch.float64)
        for place, op in self.track(feed.iterations, update=not self._accumulated).ends:
            passage = feed.passage(op)
            loss = self._assembly.stages[place].take_loss(passage)
            values[op.iteration, passage.micro_batch] = loss.double()
        dist.all_reduce(values)
        return [feed.mean(iteration, row) for iteration, row in enumerate(values.tolist())]

    def track(self, iterations: int = 1, *, update: bool = True) -> Track:
        """The program of so many iterations, made when first asked for."""
        found = self._tracks.get((iterations, update))
        if found is None:
            program = self._assembly.make_program(iterations)
            found = self._prepare(program if update else without_updates(program))
            self._tracks[iterations, update] = found
        return found

    def _prepare(self, program: Program) -> Track:
        assembly = self._assembly
        rank = assembly.layout.rank
        transport = make_transport(
            program,
            rank,
            group_ranks=assembly.layout.own_group,
            device=assembly.device,
            backend=assembly.backend,
            group=assembly.transfers,
        )
        events = count_events(program, rank)
        runtime = Runtime(
            program,
            rank,
            works=assembly.stages,
            transport=transport,
            collectives=assembly.synchronizer,
            updates=self.updater,
            recorder=self._recorder or Recording(events),
        )
        halves = program.columns.parts[program.columns.kind == Kind.B]
        ends = [
            ((op.pipe, op.stage), op)
            for step in program.ranks[rank]
            for op in step
            if op.kind == Kind.F and op.stage == program.stages - 1
        ]
        return Track(program, runtime, transport, int(halves.max(initial=1)), ends)

    def announce(self, track: Track, feed: Batches) -> None:
        """Agree on the shapes of all messages, if micro-batches of such shapes have not been seen before."""
        inputs = tuple(
            specs_of(feed.inputs(Op(Kind.F, 0, 0, number))) for number in range(track.program.micro_batches)
        )
        if inputs == track.announced:
            return
        track.announced = inputs
        cuts: dict[int, list[Specs]] = {}
        for micro_batch, arriving in enumerate(inputs):
            if (arriving, track.parts) not in self._cuts:
                while len(self._cuts) >= _MOST_SHAPES:
                    del self._cuts[next(iter(self._cuts))]
                self._cuts[arriving, track.parts] = self._probe(track, arriving)
            cuts[micro_batch] = self._cuts[arriving, track.parts]
        track.transport.expect(message_specs(track.program, cuts, parts=track.parts))

    def _probe(self, track: Track, arriving: Specs) -> list[Specs]:
        layout = self._assembly.layout
        return probe_cuts(
            track.program,
            layout.rank,
            self._assembly.stages,
            inputs=arriving,
            parts=track.parts,
            ranks=layout.own_group,
            group=self._assembly.control,
        )


def without_updates(program: Program) -> Program:
    """Gradients alone: the program without collectives and optimizer steps."""
    kept = (program.columns.kind != Kind.SYNC) & (program.columns.kind != Kind.UPDATE)
    return program.lowered_to(Columns._make(column[kept] for column in program.columns))
