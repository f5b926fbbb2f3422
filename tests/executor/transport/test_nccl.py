"""Can messages go without tags, as NCCL carries them?

The code for NCCL runs here over a gloo group: batches without tags, in which the transfer that was started
first between two ranks is matched first. What needs a device is checked where there is one.
"""

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist

from executor.errors import BoundaryError, ConfigurationError
from executor.transport import make_transport
from executor.transport.channels import Channels, routes_of
from executor.transport.nccl import NcclTransport
from executor.values import Spec
from tests.executor.processes import Ranks, run_ranks
from tests.executor.transport.walking import lowered, specs_for, walk
from tuner.schedules.generators import RECIPES
from tuner.schedules.messages import Message
from tuner.schedules.program import Program

CPU = torch.device("cpu")
MESSAGE = Message(True, 0, 0, 0, 0, 0)


@pytest.fixture(scope="module")
def four() -> Iterator[Ranks]:
    """Four ranks that run case after case."""
    with Ranks(4) as ranks:
        yield ranks


@pytest.mark.parametrize("scheme", RECIPES)
def test_every_payload_is_the_one_meant_without_tags(four: Ranks, scheme: str) -> None:
    """The first receive that was posted gets the first message that was sent, and this is the right one."""
    program = lowered(scheme, depth=4, micro_batches=8, iterations=2, ordered=True)
    assert sum(four.run(_walk, program)) == len(specs_for(program)) * 2


def test_what_was_not_announced_does_not_leave(four: Ranks) -> None:
    """The sender is told both shapes and dtypes."""
    four.run(_send_unannounced)


def test_nccl_is_refused_for_tensors_of_the_host() -> None:
    """Before anything is sent, and with what to use instead."""
    run_ranks(1, _ask_for_nccl_on_the_host)


@pytest.mark.gpu
def test_a_communicator_is_made_for_a_device() -> None:
    """A group of one has no messages, and its collectives work."""
    run_ranks(1, _use_nccl_alone)


@pytest.mark.gpu
@pytest.mark.parametrize("scheme", ["chimera", "dapple", "zb_v"])
def test_tensors_of_a_device_travel_over_gloo(scheme: str) -> None:
    """Two ranks share one device, and every payload comes back to it."""
    program = lowered(scheme, depth=2, micro_batches=4)
    assert sum(run_ranks(2, _walk_on_a_device, program)) == len(specs_for(program))


def _walk(rank: int, world_size: int, program: Program) -> int:
    transport = _tagless(program, rank)
    specs = specs_for(program)
    transport.expect(specs)
    return walk(program, rank, transport, specs=specs).checked


def _tagless(program: Program, rank: int) -> NcclTransport:
    group = dist.group.WORLD
    assert group is not None
    peers = range(program.depth)
    return NcclTransport(Channels(routes_of(program, rank, peers=peers)), group=group, device=CPU)


def _send_unannounced(rank: int, world_size: int) -> None:
    program = lowered("gpipe", depth=4, micro_batches=1, ordered=True)
    transport = _tagless(program, rank)
    transport.expect({MESSAGE[:5]: (Spec((5,), torch.float32, True),)})
    if rank == 0:
        with pytest.raises(BoundaryError, match=r"int64\[5\] where float32\[5\]"):
            transport.exchange([(MESSAGE, (torch.zeros(5, dtype=torch.int64),))], [])
        assert transport.counters.tensors == 0
    transport.finish()


def _ask_for_nccl_on_the_host(rank: int, world_size: int) -> None:
    program = lowered("gpipe", depth=1, micro_batches=1)
    with pytest.raises(ConfigurationError, match="not of cpu: use gloo"):
        make_transport(program, 0, group_ranks=[0], device=CPU, backend="nccl")


def _use_nccl_alone(rank: int, world_size: int) -> None:
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    group = dist.new_group([0], backend="nccl")
    assert isinstance(group, dist.ProcessGroup)
    program = lowered("zb_v", depth=1, micro_batches=2, ordered=True)
    transport = make_transport(program, 0, group_ranks=[0], device=device, backend="nccl", group=group)
    assert walk(program, 0, transport, specs={}).checked == 0
    total = torch.full((3,), 2.0, device=device)
    dist.all_reduce(total, group=group)
    assert total.tolist() == [2.0, 2.0, 2.0]
    dist.destroy_process_group(group)


def _walk_on_a_device(rank: int, world_size: int, program: Program) -> int:
    device = torch.device("cuda", 0)
    transport = make_transport(program, rank, group_ranks=[0, 1], device=device, backend="gloo")
    specs = specs_for(program)
    transport.expect(specs)
    return walk(program, rank, transport, specs=specs, device=device).checked
