"""What will cross every cut? Told by one pass of specs through the stages, before any value travels.

A receive needs a buffer of the exact size, so the shapes of all messages are agreed on ahead of an iteration,
once for every shape of micro-batch. What is sent later is checked against that before it leaves.
"""

from collections.abc import Mapping, Sequence

import torch.distributed as dist

from executor.errors import ModelError
from executor.transport import Key, receive_header, send_header
from executor.values import Spec, gradient_specs
from executor.works import Work
from tuner.schedules.program import Program

Specs = tuple[Spec, ...]


def probe_cuts(
    program: Program,
    rank: int,
    works: Mapping[tuple[int, int], Work],
    *,
    inputs: Specs,
    parts: int,
    ranks: Sequence[int],
    group: dist.ProcessGroup | None,
) -> list[Specs]:
    """What leaves every stage but the last, for inputs of one micro-batch.

    ranks: the global rank of every rank of the program, which are the members of `group`. Where a stage
    fails, the rank that has it raises its error, and all others a ModelError that tells of it.
    """
    own: dict[int, Specs] = {}
    arriving: Specs | None = inputs
    failure: Exception | None = None
    for stage in range(program.stages):
        holder = int(program.placement[0, stage])
        if holder != rank:
            continue
        if stage and int(program.placement[0, stage - 1]) != rank:
            before = ranks[int(program.placement[0, stage - 1])]
            arriving = receive_header(source=before, group=group, number=stage - 1)
        try:
            leaving = None if arriving is None else works[0, stage].probe(arriving, parts=parts)
        except Exception as error:  # noqa: BLE001 (the others wait, and have to be told)
            leaving, failure = None, error
        if leaving is not None:
            own[stage] = leaving
        if stage < program.stages - 1:
            ahead = int(program.placement[0, stage + 1])
            if ahead != rank:
                send_header(leaving, target=ranks[ahead], group=group, number=stage)
            arriving = leaving
    return _agreed(program, own, failure, group=group)


def _agreed(
    program: Program, own: dict[int, Specs], failure: Exception | None, *, group: dist.ProcessGroup | None
) -> list[Specs]:
    """The specs of all stages; raises on every rank what went wrong on one."""
    said = f"{type(failure).__name__}: {failure}" if failure else ""
    known: list[tuple[dict[int, Specs], str]] = [(own, said)]
    if program.depth > 1:
        known *= program.depth
        dist.all_gather_object(known, (own, said), group=group)
    if failure is not None:
        raise failure
    for other, (_, word) in enumerate(known):
        if word:
            raise ModelError(f"rank {other} could not tell the shapes of what its stages give ({word})")
    cuts = {stage: specs for part, _ in known for stage, specs in part.items()}
    return [cuts[stage] for stage in range(program.stages - 1)]


def message_specs(program: Program, cuts: Mapping[int, list[Specs]], *, parts: int) -> dict[Key, Specs]:
    """The specs of all messages, from those of the cuts for every micro-batch."""
    specs: dict[Key, Specs] = {}
    for micro_batch, leaving in cuts.items():
        for pipe in range(program.pipes):
            for cut, values in enumerate(leaving):
                specs[True, pipe, cut, micro_batch, 0] = values
                for part in range(parts):
                    specs[False, pipe, cut, micro_batch, part] = _part(gradient_specs(values), parts=parts)
    return specs


def _part(specs: Specs, *, parts: int) -> Specs:
    """Gradients of one of several equal parts of the samples."""
    if parts == 1:
        return specs
    for spec in specs:
        if not spec.shape or spec.shape[0] % parts:
            raise ModelError(
                f"halving cuts every micro-batch in {parts}, and a tensor of shape {list(spec.shape)} that "
                f"crosses a cut has no {parts} equal parts along its first dimension: choose an even "
                "micro-batch size"
            )
    return tuple(spec._replace(shape=(spec.shape[0] // parts, *spec.shape[1:])) for spec in specs)
