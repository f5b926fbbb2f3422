"""How does one rank run its lowered program? Operation by operation, in its order, on real values."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple, Protocol

from executor.errors import ConfigurationError
from executor.running.programs import backward_parts
from executor.running.releases import release_points
from executor.transport import Transport
from executor.values import Tensors
from executor.works import Passage, Target, Work
from tuner.schedules.messages import Message, input_of, message_of, output_of
from tuner.schedules.program import RECEIVES, SENDS, Kind, Op, Program

Place = tuple[int, int]
"""(pipe, stage)"""


class Feed(Protocol):
    """The micro-batches of one pipeline group, for every iteration of a program."""

    def passage(self, op: Op) -> Passage:
        """The micro-batch of an operation, numbered over all groups."""

    def inputs(self, op: Op) -> Tensors:
        """What the first stage gets."""

    def target(self, op: Op) -> Target | None:
        """What the last stage gets."""


class Collectives(Protocol):
    """Gradient synchronisation: real (`executor.weights.synchronization`) or emulated."""

    def start(self, op: Op) -> None:
        """Begin a SYNC; returns at once."""


class Updates(Protocol):
    """Optimizer steps: real (`executor.weights.updating`) or emulated."""

    def settle(self, op: Op) -> None:
        """Wait for the collectives of the round of an UPDATE, the first time that one comes."""

    def update(self, op: Op) -> None:
        """The optimizer step of one stage."""


class Recorder(Protocol):
    """Told what happens when: `recording` keeps times, `executor.launchers.progress` tells a watchdog."""

    def begin(self, event: int) -> None:
        """The operations of an event start: its input is there."""

    def end(self, event: int) -> None:
        """They are done."""

    def reach(self, event: int) -> None:
        """The rank comes to an event, whose input may be awaited."""


class _Transfers(NamedTuple):
    """SENDs and RECVs that stand next to each other."""

    sends: tuple[Message, ...]
    receives: tuple[Message, ...]


class _Compute(NamedTuple):
    """One operation with the values that it takes and gives."""

    event: int
    op: Op
    perform: Callable[..., None]
    """What runs it: (this, feed)."""
    work: Work | None
    takes: Message | None
    travels: bool
    """Whether what it takes comes from another rank."""
    gives: Message | None
    ends: bool
    """Whether it is of the last stage."""


class Runtime:
    """Runs the program of one rank again and again; everything that can be known ahead is worked out once."""

    def __init__(
        self,
        program: Program,
        rank: int,
        *,
        works: Mapping[Place, Work],
        transport: Transport,
        collectives: Collectives,
        updates: Updates,
        recorder: Recorder,
    ) -> None:
        if not program.lowered:
            raise ConfigurationError(f"{program.scheme} has no messages yet: lower it before it is run")
        self._program = program
        self._works = works
        self._transport = transport
        self._collectives = collectives
        self._updates = updates
        self._recorder = recorder
        self._halves = backward_parts(program)
        self._releases = release_points(program, rank)
        self._instructions = self._read(program.ranks[rank])
        self._values: dict[Message, Tensors] = {}
        """Made here, and not yet sent or used."""
        self._prepare: Callable[[], None] | None = None

    def run(self, feed: Feed, *, prepare: Callable[[], None] | None = None) -> None:
        """Run the program once; every send has been received when it returns.

        prepare: what must be done ahead of the first backward. It is done while the first message is on its
        way, where one is awaited before.
        """
        recorder, exchange = self._recorder, self._transport.exchange
        self._prepare = prepare
        for instruction in self._instructions:
            if isinstance(instruction, _Transfers):
                sends = [(message, self._values.pop(message)) for message in instruction.sends]
                exchange(sends, instruction.receives)
                continue
            recorder.reach(instruction.event)
            try:
                instruction.perform(instruction, feed)
            except Exception as error:
                error.add_note(f"while running {instruction.op} of iteration {instruction.op.iteration}")
                raise
            recorder.end(instruction.event)
        self._transport.finish()

    def _read(self, steps: Sequence[Sequence[Op]]) -> list[_Transfers | _Compute]:
        """The rank's steps with everything looked up; a fused pair is two operations of one event."""
        instructions: list[_Transfers | _Compute] = []
        event = -1
        for travelling, group in groupby(steps, key=lambda step: step[0].kind in SENDS | RECEIVES):
            if travelling:
                ops = [step[0] for step in group]
                instructions.append(
                    _Transfers(
                        tuple(message_of(op) for op in ops if op.kind in SENDS),
                        tuple(message_of(op) for op in ops if op.kind in RECEIVES),
                    )
                )
                continue
            for step in group:
                event += 1
                instructions.extend(self._look_up(event, op) for op in step)
        return instructions

    def _look_up(self, event: int, op: Op) -> _Compute:
        program = self._program
        takes, gives = input_of(op, program), output_of(op, program)
        travels = takes is not None and takes.source(program) != takes.target(program)
        perform = {Kind.SYNC: self._synchronize, Kind.UPDATE: self._update, Kind.F: self._forward}
        return _Compute(
            event, op, perform.get(op.kind, self._backward), self._works.get((op.pipe, op.stage)),
            takes, travels, gives, op.stage == program.stages - 1,
        )  # fmt: skip

    def _synchronize(self, instruction: _Compute, _feed: Feed) -> None:
        self._do_preparation()
        self._recorder.begin(instruction.event)
        self._collectives.start(instruction.op)

    def _update(self, instruction: _Compute, _feed: Feed) -> None:
        self._updates.settle(instruction.op)
        self._recorder.begin(instruction.event)
        self._updates.update(instruction.op)

    def _forward(self, instruction: _Compute, feed: Feed) -> None:
        op = instruction.op
        taken = feed.inputs(op) if instruction.takes is None else self._take(instruction, instruction.takes)
        self._recorder.begin(instruction.event)
        given = _work(instruction).forward(
            feed.passage(op),
            taken,
            parts=self._halves,
            version=op.version,
            target=feed.target(op) if instruction.ends else None,
        )
        if instruction.gives is not None:
            self._values[instruction.gives] = given

    def _backward(self, instruction: _Compute, feed: Feed) -> None:
        """Any of B, I, W and RECOMPUTE."""
        op, work = instruction.op, _work(instruction)
        taken = () if instruction.takes is None else self._take(instruction, instruction.takes)
        self._do_preparation()
        self._recorder.begin(instruction.event)
        passage = feed.passage(op)
        if op.kind == Kind.B:
            given = work.backward(passage, taken, part=op.part)
        elif op.kind == Kind.I:
            given = work.input_backward(passage, taken, part=op.part)
        else:
            again: Callable[..., None] = work.weight_backward if op.kind == Kind.W else work.recompute
            again(passage, part=op.part)
            return
        if instruction.gives is not None:
            self._values[instruction.gives] = given

    def _take(self, instruction: _Compute, message: Message) -> Tensors:
        """The value that an operation works on; sends that are known to have arrived by then are let go."""
        if not instruction.travels:
            return self._values.pop(message)
        self._do_preparation()
        value = self._transport.wait(message)
        released = self._releases.get(message)
        if released:
            self._transport.release(released)
        return value

    def _do_preparation(self) -> None:
        if self._prepare is not None:
            prepare, self._prepare = self._prepare, None
            prepare()


def _work(instruction: _Compute) -> Work:
    if instruction.work is None:
        op = instruction.op
        raise ConfigurationError(f"stage {op.stage} of pipe {op.pipe} is not on this rank: {op}")
    return instruction.work
