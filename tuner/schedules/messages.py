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


def needed_by(op: Op, program: Program) -> Message | None:
    """What an operation waits for; None where its input is local or given."""
    if op.kind == Kind.F and op.stage > 0:
        message = Message(True, op.pipe, op.stage - 1, op.micro_batch, op.part, op.iteration)
    elif op.kind in {Kind.B, Kind.I} and op.stage < program.stages - 1:
        message = Message(False, op.pipe, op.stage, op.micro_batch, op.part, op.iteration)
    else:
        return None
    return None if message.source(program) == message.target(program) else message


def made_by(op: Op, program: Program) -> Message | None:
    """What an operation makes for another rank; None where nothing travels."""
    if op.kind == Kind.F and op.stage < program.stages - 1:
        message = Message(True, op.pipe, op.stage, op.micro_batch, op.part, op.iteration)
    elif op.kind in {Kind.B, Kind.I} and op.stage > 0:
        message = Message(False, op.pipe, op.stage - 1, op.micro_batch, op.part, op.iteration)
    else:
        return None
    return None if message.source(program) == message.target(program) else message
