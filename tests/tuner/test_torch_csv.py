"""Does torch read the programs of one direction as what they are?"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tuner.errors import ScheduleError
from tuner.schedules.generators import RECIPES, generate
from tuner.schedules.lowering import lower
from tuner.schedules.program import COMPUTE, Program
from tuner.torch_csv import torch_csv

DEPTH, MICRO_BATCHES = 4, 8
READABLE = ("gpipe", "dapple", "interleaved", "zb_h1", "zb_v")


def make(schedule: str, **options: Any) -> Program:
    """A program on four ranks with eight micro-batches."""
    return generate(schedule, depth=DEPTH, micro_batches=MICRO_BATCHES, **options)


def orders(program: Program) -> list[list[str]]:
    """Actions of every rank as torch writes them."""
    return [
        [f"{op.stage}{op.kind.name}{op.micro_batch}" for step in steps for op in step if op.kind in COMPUTE]
        for steps in program.ranks
    ]


@pytest.fixture
def torch_group() -> Iterator[None]:
    """A process group of four ranks without any process behind it; this is rank 0."""
    distributed = pytest.importorskip("torch.distributed", reason="needs torch")
    fake = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
    distributed.init_process_group("fake", rank=0, world_size=DEPTH, store=fake.FakeStore())
    yield
    distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("schedule", READABLE)
def test_torchs_runtime_loads_the_same_order(schedule: str, tmp_path: Path, torch_group: None) -> None:
    """The compute-only form, to which the runtime adds sends and receives without waiting for ever."""
    import torch
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    program = make(schedule)
    path = tmp_path / "order.csv"
    path.write_text(torch_csv(lower(program)))
    held = [stage for stage, rank in enumerate(program.placement[0].tolist()) if rank == 0]
    stages = [
        PipelineStage(torch.nn.Linear(2, 2), stage, program.stages, torch.device("cpu")) for stage in held
    ]
    runtime = _PipelineScheduleRuntime(stages, n_microbatches=MICRO_BATCHES, loss_fn=lambda *_: None)
    runtime._load_csv(str(path), format="compute_only")
    read = [[str(action) for action in runtime.pipeline_order[rank] if action] for rank in range(DEPTH)]
    assert read == orders(program)
    assert runtime.stage_index_to_group_rank == dict(enumerate(program.placement[0].tolist()))
    with_messages = runtime.pipeline_order_with_comms[0]
    assert any("SEND" in str(action) for action in with_messages)


@pytest.mark.parametrize("schedule", READABLE)
def test_a_line_for_each_rank_has_its_actions_in_order(schedule: str) -> None:
    """Messages, collectives and updates are left to the runtime."""
    program = make(schedule)
    lines = torch_csv(lower(program)).splitlines()
    assert [line.split(",") for line in lines] == orders(program)
    assert torch_csv(program).splitlines() == lines


@pytest.mark.parametrize("schedule", sorted(RECIPES.keys() - set(READABLE)))
def test_what_the_runtime_cannot_express_is_refused(schedule: str) -> None:
    """Two directions, or no flush; with the schedules that can."""
    with pytest.raises(ScheduleError, match=r"torch\.distributed\.pipelining: .*(2 pipes|flush).*dapple"):
        torch_csv(make(schedule))


def test_a_file_holds_one_iteration() -> None:
    """The number is named."""
    with pytest.raises(ScheduleError, match="one iteration, not 3"):
        torch_csv(make("dapple", iterations=3))
