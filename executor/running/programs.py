"""Which lowered program is run for a schedule? The one of trials, of pipelines, and of their predictions."""

from collections.abc import Sequence

from tuner.schedules.lowering import Lowering, lower
from tuner.schedules.ordering import in_common_order
from tuner.schedules.program import Kind, Program
from tuner.schedules.updates import Synchronization, SyncPolicy


def lowered(
    generated: Program,
    *,
    policy: SyncPolicy,
    buckets: int,
    sharded: bool,
    tied: Sequence[Sequence[int]],
    ordered: bool,
) -> Program:
    """With messages, collectives and updates.

    tied: the stages of each tied group; ordered: for a transport that runs transfers in program order (NCCL).
    """
    groups = tuple(tuple(stages) for stages in tied)
    synchronization = Synchronization(policy=policy, buckets=buckets, sharded=sharded, tied=groups)
    program = lower(generated, Lowering(synchronization))
    return in_common_order(program) if ordered else program


def backward_parts(program: Program) -> int:
    """Parts of a micro-batch that have backwards, and graphs, of their own: 2 under halving."""
    return int(program.columns.parts[program.columns.kind == Kind.B].max(initial=1))
