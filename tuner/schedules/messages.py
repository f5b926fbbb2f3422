"""Which value travels from which rank to which?"""

from typing import NamedTuple

from tuner.schedules.program import Kind, Op, Program


class Message(NamedTuple):
    """An activation or an input gradient that crosses the cut after stage `cut` of a pipe."""

    forward: bool
    pipe: int
    cut: int
    micro_batch: int
    part: int
    iteration: int

    def source(self, program: Program) -> int:
        """The rank that sends it."""
        return int(program.placement[self.pipe, self.cut if self.forward else self.cut + 1])

    def target(self, program: Program) -> int:
        """The rank that receives it."""
        return int(program.placement[self.pipe, self.cut + 1 if self.forward else self.cut])


def message_of(op: Op) -> Message:
    """What a SEND or RECV transfers."""
    forward = op.kind in {Kind.SEND_F, Kind.RECV_F}
    behind = op.kind in {Kind.RECV_F, Kind.SEND_B}
    return Message(forward, op.pipe, op.stage - behind, op.micro_batch, op.part, op.iteration)


def input_of(op: Op, program: Program) -> Message | None:
    """The value that an operation works on, wherever it comes from; None where it is given."""
    if op.kind == Kind.F and op.stage > 0:
        return Message(True, op.pipe, op.stage - 1, op.micro_batch, op.part, op.iteration)
    if op.kind in {Kind.B, Kind.I} and op.stage < program.stages - 1:
        return Message(False, op.pipe, op.stage, op.micro_batch, op.part, op.iteration)
    return None


def output_of(op: Op, program: Program) -> Message | None:
    """The value that an operation makes for a neighbouring stage; None where there is none."""
    if op.kind == Kind.F and op.stage < program.stages - 1:
        return Message(True, op.pipe, op.stage, op.micro_batch, op.part, op.iteration)
    if op.kind in {Kind.B, Kind.I} and op.stage > 0:
        return Message(False, op.pipe, op.stage - 1, op.micro_batch, op.part, op.iteration)
    return None


def needed_by(op: Op, program: Program) -> Message | None:
    """What an operation waits for; None where its input is local or given."""
    return _if_travelling(input_of(op, program), program)


def made_by(op: Op, program: Program) -> Message | None:
    """What an operation makes for another rank; None where nothing travels."""
    return _if_travelling(output_of(op, program), program)


def _if_travelling(message: Message | None, program: Program) -> Message | None:
    if message is None or message.source(program) == message.target(program):
        return None
    return message
