"""Do forwards alone come to their end, each once through every stage?"""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.errors import ScheduleError
from tuner.schedules.dry_run import dry_run
from tuner.schedules.forward_only import forward_only
from tuner.schedules.generators import RECIPES, generate
from tuner.schedules.program import Kind


@given(scheme=st.sampled_from(sorted(RECIPES)), half=st.integers(1, 3), count=st.integers(1, 9))
@settings(deadline=None, max_examples=60)
def test_every_micro_batch_passes_every_stage_once_and_nothing_waits_for_ever(
    scheme: str, half: int, count: int
) -> None:
    """For the placement of every schedule and any number of micro-batches, under every transport's rules."""
    depth = 2 * half
    placement = generate(scheme, depth=depth, micro_batches=2 * depth).placement
    program = forward_only(placement, depth=depth, micro_batches=count)
    seen = Counter(
        (op.stage, op.micro_batch)
        for steps in program.ranks
        for step in steps
        for op in step
        if op.kind == Kind.F
    )
    assert set(seen.values()) == {1}
    assert len(seen) == count * program.stages
    dry_run(program, "buffered")
    dry_run(program, "rendezvous")


def test_no_micro_batch_is_refused() -> None:
    """An evaluation of nothing has no answer."""
    placement = generate("gpipe", depth=2, micro_batches=1).placement
    with pytest.raises(ScheduleError, match="nothing to evaluate"):
        forward_only(placement, depth=2, micro_batches=0)
