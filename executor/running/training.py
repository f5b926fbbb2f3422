"""How does one rank run mini-batch after mini-batch? Programs, messages and losses of its pipeline."""

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from executor.errors import ConfigurationError
from executor.running.assembly import Assembly, Place
from executor.running.batches import Batches
from executor.running.runtime import Recorder, Updates
from executor.running.tracks import Track, Tracks
from executor.stages.seeding import kept_random_state
from executor.values import Batch
from executor.weights.holdings import RankWeights
from executor.weights.updating import Updater
from tuner.schedules.program import Columns, Kind, Op, Program

_Ends = list[tuple[Place, Op]]
"""The forwards of a rank that give a loss."""


class Training:
    """Runs programs on an assembly; what can be known ahead is kept for the next mini-batch."""

    def __init__(
        self,
        assembly: Assembly,
        recorder: Recorder | None = None,
        *,
        around: Callable[[Updates], Updates] | None = None,
    ) -> None:
        """`recorder` is for the program of one iteration; no times are kept unless given.

        `around` gives the updates that programs call instead of the updater's own.
        """
        self._assembly = assembly
        self._recorder = recorder
        self._ready: dict[tuple[int, bool], tuple[Track, _Ends]] = {}
        """By iterations, and whether the weights are updated."""
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
        updates = around(self.updater) if around else self.updater
        self._tracks = Tracks(assembly, assembly.stages, updates)

    @property
    def weights(self) -> RankWeights:
        """What this rank holds."""
        return self._assembly.weights

    @property
    def on_cuda(self) -> bool:
        """Whether computation goes on behind the program's back."""
        return self._assembly.device.type == "cuda"

    def close(self) -> None:
        """Let go of the process groups of the assembly, on all processes."""
        self._assembly.close()

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

    @torch.enable_grad()
    def run(self, batches: Sequence[Batch], *, update: bool = True) -> Batches:
        """Forward, backward and update of the mini-batches of one round."""
        if not self.synchronous and not update:
            raise ConfigurationError(
                f"{self._assembly.configuration.schedule} updates its weights as it goes: gradients "
                "cannot be added up over mini-batches"
            )
        assembly = self._assembly
        track, _ = self._track(len(batches), update=update)
        feed = Batches(
            batches,
            micro_batches=assembly.configuration.micro_batches,
            width=assembly.configuration.width,
            group=assembly.layout.group,
            count=assembly.loss.count,
            first_iteration=self.iteration,
            device=assembly.device,
        )
        self._tracks.announce(track, feed)
        for versioned in assembly.versioned.values():
            versioned.restart()
        for stage in assembly.stages.values():
            stage.forget()
            stage.loss_scale = self.updater.loss_factor
        with kept_random_state():
            track.runtime.run(feed, prepare=None if self._accumulated else assembly.weights.zero)
        if update:
            self.updater.finish()
            assembly.average.after(assembly.synchronizer.compressor.steps)
        assembly.statistics.merge()
        self._accumulated = not update
        self.iteration += len(batches)
        return feed

    def losses(self, feed: Batches) -> list[float]:
        """The mean loss of every mini-batch of a round, the same on all ranks.

        Σ n_m·loss_m / Σn, added up in the order of the micro-batches whatever the schedule.
        """
        values = torch.zeros((feed.iterations, feed.pieces), dtype=torch.float64)
        for place, op in self._track(feed.iterations, update=not self._accumulated)[1]:
            passage = feed.passage(op)
            loss = self._assembly.stages[place].take_loss(passage)
            values[op.iteration, passage.micro_batch] = loss.double()
        dist.all_reduce(values)
        return [feed.mean(iteration, row) for iteration, row in enumerate(values.tolist())]

    def _track(self, iterations: int, *, update: bool) -> tuple[Track, _Ends]:
        """The program of so many iterations, made when first asked for."""
        found = self._ready.get((iterations, update))
        if found is None:
            program = self._assembly.make_program(iterations)
            track = self._tracks.make(program if update else without_updates(program), self._recorder)
            found = self._ready[iterations, update] = track, self._ends(program)
        return found

    def _ends(self, program: Program) -> _Ends:
        return [
            ((op.pipe, op.stage), op)
            for step in program.ranks[self._assembly.layout.rank]
            for op in step
            if op.kind == Kind.F and op.stage == program.stages - 1
        ]


def without_updates(program: Program) -> Program:
    """Gradients alone: the program without collectives and optimizer steps."""
    kept = (program.columns.kind != Kind.SYNC) & (program.columns.kind != Kind.UPDATE)
    return program.lowered_to(Columns._make(column[kept] for column in program.columns))
