"""What does one rank of an emulated trial run? Its program on stages that sleep, with real messages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from executor.crossover.turns import Turns
from executor.errors import ConfigurationError
from executor.launchers.rank_process import Rank
from executor.running.layout import Layout
from executor.running.probing import message_specs
from executor.running.programs import backward_parts
from executor.running.recording import Recording, count_events
from executor.running.runtime import Runtime
from executor.transport import Transport, make_transport
from executor.trials.emulation import EmulatedUpdates, EmulatedWork, sharpen_sleep
from executor.trials.iterations import on_one_machine, time_iterations
from executor.trials.prepared_trial import PreparedTrial, prepare
from executor.trials.trial_request import read_trial
from executor.trials.watched import WatchedRecording, event_operations
from executor.values import Tensors
from executor.weights.groups import ParameterGroups
from executor.works import Passage, Target
from tuner.schedules.program import Op

Place = tuple[int, int]


class NoSamples:
    """Micro-batches without anything in them, numbered over all pipeline groups."""

    def __init__(self, group: int, micro_batches: int) -> None:
        self._offset = group * micro_batches

    def passage(self, op: Op) -> Passage:
        """The micro-batch of an operation."""
        return Passage(op.iteration, self._offset + op.micro_batch)

    def inputs(self, op: Op) -> Tensors:  # noqa: ARG002
        """Nothing."""
        return ()

    def target(self, op: Op) -> Target | None:  # noqa: ARG002
        """Nothing."""
        return None


def run(spec: Mapping[str, Any], rank: Rank) -> dict[str, Any]:
    """Time the iterations of the request `spec`: the fields of executor.trials.rank_result.RankResult."""
    return measure(prepare(read_trial(dict(spec))), rank)


def measure(prepared: PreparedTrial, rank: Rank, turns: Turns | None = None) -> dict[str, Any]:
    """Time its iterations, with `turns` in turn with other jobs."""
    request = prepared.request
    rank.progress.doing("connecting")
    dist.init_process_group("gloo", timeout=timedelta(seconds=request.timeout_s))
    sharpen_sleep()
    layout = Layout.of_process(prepared.configuration, rank.rank, processes=rank.ranks)
    recording = Recording(count_events(prepared.program, layout.rank))
    ops = event_operations(prepared.program, layout.rank)
    runtime = _runtime(prepared, layout, WatchedRecording(recording, rank.progress, ops=ops), turns=turns)
    feed = NoSamples(layout.group, request.micro_batches)

    def run_once(_: int) -> None:
        if turns is not None:
            turns.begin()
        runtime.run(feed)

    whole = not prepared.program.synchronous
    rank.progress.doing("running iterations")
    measured = time_iterations(
        run_once,
        recording,
        iterations=1 if whole else request.iterations,
        warm_up=0 if whole else request.warm_up,
        settled=rank.memory.restart,
        together=turns is None,
    )
    return measured.document() | {"memory": rank.memory.read().document()}


def _runtime(
    prepared: PreparedTrial, layout: Layout, recorder: WatchedRecording, *, turns: Turns | None
) -> Runtime:
    program = prepared.program
    emulated = prepared.request.emulate
    if emulated is None:
        raise ConfigurationError("an emulated trial needs to know what its stages take: give `emulate`")
    groups = ParameterGroups(program.placement, ranks=layout.groups)
    updates = EmulatedUpdates(emulated, groups, one_machine=on_one_machine())
    last = program.stages - 1
    works = {
        (pipe, stage): EmulatedWork(emulated, share=program.chunks, last=stage == last)
        for pipe in range(program.pipes)
        for stage in range(program.stages)
    }
    return Runtime(
        program,
        layout.rank,
        works=works,
        transport=_transport(prepared, layout, works),
        collectives=updates,
        updates=turns.around(updates) if turns else updates,
        recorder=recorder,
    )


def _transport(prepared: PreparedTrial, layout: Layout, works: Mapping[Place, EmulatedWork]) -> Transport:
    program = prepared.program
    transport = make_transport(
        program, layout.rank, group_ranks=layout.own_group, device=torch.device("cpu"), backend="gloo"
    )
    parts = backward_parts(program)
    leaving = [works[0, stage].probe((), parts=parts) for stage in range(program.stages - 1)]
    transport.expect(
        message_specs(program, dict.fromkeys(range(program.micro_batches), leaving), parts=parts)
    )
    return transport
