"""Do messages get from rank to rank over gloo, whole and to the right place?"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from executor.errors import BoundaryError, TransportError
from executor.running.group_channels import upward_group
from executor.transport import make_transport
from executor.values import Spec
from tests.executor.processes import Ranks, RanksFailedError, run_ranks
from tests.executor.transport.walking import ACTIVATION, Walked, lowered, specs_for, walk
from tuner.schedules.generators import RECIPES
from tuner.schedules.messages import Message
from tuner.schedules.program import Program

CPU = torch.device("cpu")
FLOATS = (Spec((2, 2), torch.float32, True),)
MESSAGE = Message(True, 0, 0, 0, 0, 0)


@pytest.fixture(scope="module")
def four() -> Iterator[Ranks]:
    """Four ranks that run case after case."""
    with Ranks(4) as ranks:
        yield ranks


@pytest.mark.parametrize("scheme", RECIPES)
def test_every_payload_of_every_schedule_is_the_one_meant(four: Ranks, scheme: str) -> None:
    """On four ranks, twice in a row, with halves, chunks and several iterations in one program."""
    program = lowered(scheme, depth=4, micro_batches=8, iterations=2)
    walked = four.run(_walk, program, [[0, 1, 2, 3]], 2)
    assert sum(w.checked for w in walked) == 2 * _messages(program)


def test_two_pipes_of_chimera_share_one_pair_of_ranks(four: Ranks) -> None:
    """Both directions of both pipes cross one connection, beside another group that does the same."""
    program = lowered("chimera", depth=2, micro_batches=4)
    walked = four.run(_walk, program, [[0, 2], [1, 3]], 3)
    assert [w.checked for w in walked] == [3 * 4 * 2 // 2] * 4
    assert {flags for w in walked for flags in w.flags} == {(True, True), (True, False), (False, False)}


def test_each_direction_has_a_group_that_serves_until_it_is_destroyed(four: Ranks) -> None:
    """What goes to lower ranks arrives over a group of two of the four ranks, made once and then again."""
    program = lowered("chimera", depth=2, micro_batches=4)
    assert four.run(_walk_in_two_groups, program, [[0, 2], [1, 3]]) == [2 * 4 * 2 // 2] * 4


def test_halves_of_a_backward_are_messages_of_their_own(four: Ranks) -> None:
    """Chimera by halving sends two gradients for every activation."""
    program = lowered("chimera", depth=4, micro_batches=8, scaling="halving")
    walked = four.run(_walk, program, [[0, 1, 2, 3]], 1)
    assert sum(w.checked for w in walked) == 8 * 3 * (1 + 2)


def test_two_hundred_iterations_in_a_row_do_not_hang(four: Ranks) -> None:
    """The same tags are used again and again."""
    program = lowered("chimera", depth=4, micro_batches=4)
    assert sum(w.checked for w in four.run(_walk, program, [[0, 1, 2, 3]], 200, FLOATS)) == 200 * 4 * 3 * 2


def test_nothing_is_batched(four: Ranks) -> None:
    """Batched calls over gloo have hung in other systems: none is made."""
    four.run(_walk_without_batches, lowered("dapple", depth=4, micro_batches=4))


@pytest.mark.parametrize("scheme", ["zb_v", "interleaved", "gpipe"])
def test_what_stays_on_a_rank_makes_no_calls(four: Ranks, scheme: str) -> None:
    """On one rank nothing is sent; on two, only what changes ranks."""
    assert four.run(_sent_alone, scheme)[0] == (0, 0)
    program = lowered(scheme, depth=2, micro_batches=4)
    walked = four.run(_count, program, [[0, 1], [2, 3]])
    assert sum(messages for messages, _, _ in walked[:2]) == _messages(program)


def test_integers_and_flags_go_forward_and_no_gradient_comes_back(four: Ranks) -> None:
    """A message without tensors is no message: the counters see activations alone."""
    program = lowered("dapple", depth=4, micro_batches=3)
    values = (Spec((7,), torch.int64, False), Spec((2, 2), torch.bool, False))
    counts = four.run(_count, program, [[0, 1, 2, 3]], values)
    assert counts == [(3, 6, 3 * (56 + 4))] * 3 + [(0, 0, 0)]


def test_views_arrive_as_their_values(four: Ranks) -> None:
    """Transposed, expanded, conjugate and negated tensors are sent as what they show."""
    four.run(_exchange_views)


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (torch.zeros(3), r"float32\[3\] where float32\[5\]"),
        (torch.zeros(5, dtype=torch.float64), r"float64\[5\] where float32\[5\]"),
    ],
)
def test_what_was_not_announced_does_not_leave(four: Ranks, found: torch.Tensor, shown: str) -> None:
    """The sender is told both shapes and dtypes, and the receiver gets neither a part nor garbage."""
    four.run(_send_unannounced, found, shown)


def test_what_is_over_is_let_go_while_an_iteration_runs(four: Ranks) -> None:
    """Sent values that 1F1B keeps are a matter of D, not of N."""
    few, many = (
        four.run(_walk, lowered("dapple", depth=4, micro_batches=n), [[0, 1, 2, 3]], 1) for n in (12, 48)
    )
    assert [w.most_kept for w in few] == [w.most_kept for w in many]
    assert max(w.most_kept for w in many) <= 2 * 4


def test_misuse_is_told_with_the_message_that_it_is_about(four: Ranks) -> None:
    """Awaited but not posted, posted but not awaited, not announced, released but not sent."""
    four.run(_misuse)


def test_the_largest_send_may_be_the_last_that_a_rank_does(tmp_path: Path) -> None:
    """64 MiB are there whole although the sender closed its connections before anyone waited for them."""
    left = tmp_path / "left"
    os.mkfifo(left)
    assert run_ranks(2, _send_large_and_leave, left) == [None, float(2**24)]


def test_a_peer_that_died_is_named_with_the_message_that_is_missing() -> None:
    """The error says which message, from which rank to which."""
    with pytest.raises(RanksFailedError) as caught:
        run_ranks(2, _wait_for_the_dead)
    assert caught.value.failures[0] == "died with exit code 86"
    lost = "TransportError: the activation of micro-batch 0 between stages 0 and 1 of pipe 0, from rank 0 to"
    assert lost in caught.value.failures[1]


def _messages(program: Program) -> int:
    return len(specs_for(program)) * program.iterations


def _place(rank: int, groups: list[list[int]]) -> tuple[int, list[int]] | None:
    """The program rank of a global rank, and its group."""
    return next(((group.index(rank), group) for group in groups if rank in group), None)


def _walk(
    rank: int,
    world_size: int,
    program: Program,
    groups: list[list[int]],
    times: int,
    values: tuple[Spec, ...] = ACTIVATION,
) -> Walked:
    place, group = _place(rank, groups) or (0, [])
    transport = make_transport(program, place, group_ranks=group, device=CPU, backend="gloo")
    specs = specs_for(program, values)
    transport.expect(specs)
    every = [walk(program, place, transport, specs=specs) for _ in range(times)]
    return replace(every[0], checked=sum(walked.checked for walked in every))


def _walk_in_two_groups(rank: int, world_size: int, program: Program, groups: list[list[int]]) -> int:
    place, ranks = _place(rank, groups) or (0, [])
    own, specs = groups.index(ranks), specs_for(program, FLOATS)
    checked = 0
    for _ in range(2):
        upward = upward_group(groups, own=own)
        assert upward is not None
        assert upward is upward_group(groups, own=own)
        assert upward.size() == 2
        transport = make_transport(
            program, place, group_ranks=ranks, device=CPU, backend="gloo", upward=upward
        )
        transport.expect(specs)
        checked += walk(program, place, transport, specs=specs).checked
        dist.destroy_process_group(upward)
    return checked


def _walk_without_batches(rank: int, world_size: int, program: Program) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(dist, "batch_isend_irecv")
        _walk(rank, world_size, program, [[0, 1, 2, 3]], 1)


def _count(
    rank: int, world_size: int, program: Program, groups: list[list[int]], values: tuple[Spec, ...] = FLOATS
) -> tuple[int, int, int]:
    place, group = _place(rank, groups) or (0, [])
    transport = make_transport(program, place, group_ranks=group, device=CPU, backend="gloo")
    specs = specs_for(program, values)
    transport.expect(specs)
    walk(program, place, transport, specs=specs)
    return transport.counters.messages, transport.counters.tensors, transport.counters.bytes


def _sent_alone(rank: int, world_size: int, scheme: str) -> tuple[int, int]:
    program = lowered(scheme, depth=1, micro_batches=2)
    transport = make_transport(program, 0, group_ranks=[rank], device=CPU, backend="gloo")
    walked = walk(program, 0, transport, specs={})
    return transport.counters.tensors, walked.checked


def _exchange_views(rank: int, world_size: int) -> None:
    if rank > 1:
        return
    base = torch.arange(6.0).reshape(2, 3)
    complex_base = torch.complex(base, base + 1)
    views = (base.t(), torch.ones(1, 3).expand(2, 3), complex_base.conj(), complex_base.conj().imag)
    assert views[3].is_neg()
    assert views[2].is_conj()
    program = lowered("gpipe", depth=2, micro_batches=1)
    transport = make_transport(program, rank, group_ranks=[0, 1], device=CPU, backend="gloo")
    transport.expect({MESSAGE[:5]: tuple(Spec(tuple(v.shape), v.dtype, False) for v in views)})
    if rank == 0:
        transport.exchange([(MESSAGE, views)], [])
    else:
        transport.exchange([], [MESSAGE])
        for found, right in zip(transport.wait(MESSAGE), views, strict=True):
            assert torch.equal(found, right)
    transport.finish()


def _send_unannounced(rank: int, world_size: int, found: torch.Tensor, shown: str) -> None:
    if rank > 1:
        return
    program = lowered("gpipe", depth=2, micro_batches=1)
    transport = make_transport(program, rank, group_ranks=[0, 1], device=CPU, backend="gloo")
    transport.expect({MESSAGE[:5]: (Spec((5,), torch.float32, True),)})
    if rank == 0:
        with pytest.raises(BoundaryError, match=f"micro-batch 0 between stages 0 and 1 .*{shown}"):
            transport.exchange([(MESSAGE, (found,))], [])
        with pytest.raises(BoundaryError, match=r"2 tensors where 1 were announced \(float32\[5\]\)"):
            transport.exchange([(MESSAGE, (torch.ones(5), found))], [])
        assert transport.counters.tensors == 0
        transport.exchange([(MESSAGE, (torch.ones(5),))], [])
    else:
        transport.exchange([], [MESSAGE])
        assert torch.equal(transport.wait(MESSAGE)[0].detach(), torch.ones(5))
    transport.finish()


def _misuse(rank: int, world_size: int) -> None:
    if rank > 1:
        return
    program = lowered("gpipe", depth=2, micro_batches=2)
    transport = make_transport(program, rank, group_ranks=[0, 1], device=CPU, backend="gloo")
    with pytest.raises(TransportError, match=r"micro-batch 0 .*shapes were not announced"):
        transport.exchange([], [MESSAGE])
    transport.expect(specs_for(program))
    with pytest.raises(TransportError, match=r"micro-batch 1 .*no receive was posted"):
        transport.wait(MESSAGE._replace(micro_batch=1))
    with pytest.raises(TransportError, match=r"micro-batch 0 .*was not sent"):
        transport.release([MESSAGE])
    with pytest.raises(TransportError, match="not sent or received by this rank"):
        transport.wait(MESSAGE._replace(cut=5))
    if rank == 1:
        transport.exchange([], [MESSAGE])
        with pytest.raises(TransportError, match="nothing waited for: the activation of micro-batch 0"):
            transport.finish()
    transport.finish()


def _send_large_and_leave(rank: int, world_size: int, left: Path) -> float | None:
    program = lowered("gpipe", depth=2, micro_batches=1)
    transport = make_transport(program, rank, group_ranks=[0, 1], device=CPU, backend="gloo")
    transport.expect({MESSAGE[:5]: (Spec((2**24,), torch.float32, False),)})
    if rank == 0:
        transport.exchange([(MESSAGE, (torch.ones(2**24),))], [])
        transport.finish()
        dist.destroy_process_group()
        left.write_text("left", encoding="utf-8")
        return None
    transport.exchange([], [MESSAGE])
    assert left.read_text(encoding="utf-8") == "left"
    return float(transport.wait(MESSAGE)[0].sum())


def _wait_for_the_dead(rank: int, world_size: int) -> None:
    program = lowered("gpipe", depth=2, micro_batches=1)
    transport = make_transport(program, rank, group_ranks=[0, 1], device=CPU, backend="gloo")
    transport.expect(specs_for(program))
    if rank == 0:
        os._exit(86)
    transport.exchange([], [MESSAGE])
    transport.wait(MESSAGE)
