"""How does torch.distributed.pipelining read a program? As CSV, the compute-only form: a line for each rank.

`_PipelineScheduleRuntime._load_csv(file, format="compute_only")` reads it and adds the communication. Each
field is an action such as 0F3: stage, F (forward), B (whole backward), I (input gradient) or W (weight
gradient), and micro-batch.
"""

from tuner.errors import ScheduleError
from tuner.schedules.program import COMPUTE, Kind, Program


def torch_csv(program: Program) -> str:
    """The lines; raises ScheduleError for what the runtime cannot express."""
    reason = _inexpressible(program)
    if reason is not None:
        raise ScheduleError(
            f"{program.scheme} cannot be written as CSV for torch.distributed.pipelining: {reason}"
        )
    columns = program.columns
    rows: list[list[str]] = [[] for _ in range(program.depth)]
    for kind, stage, micro_batch, rank in zip(
        columns.kind.tolist(),
        columns.stage.tolist(),
        columns.micro_batch.tolist(),
        columns.rank.tolist(),
        strict=True,
    ):
        if kind in COMPUTE:
            rows[rank].append(f"{stage}{Kind(kind).name}{micro_batch}")
    return "".join(",".join(row) + "\n" for row in rows)


def _inexpressible(program: Program) -> str | None:
    if program.pipes > 1:
        return (
            f"it runs {program.pipes} pipes, and the runtime has one copy of every stage; "
            "choose one with a single pipe, such as dapple or zb_v"
        )
    if not program.synchronous:
        return "it does not flush, and the runtime keeps one version of the weights; choose dapple"
    if program.iterations > 1:
        return f"the file holds one iteration, not {program.iterations}; use iterations 1"
    if (program.columns.kind == Kind.RECOMPUTE).any():
        return "the runtime has no recomputation of its own"
    return None
