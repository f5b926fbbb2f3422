"""Does a lowered program send every value once, and synchronise and update every stage once a round?"""

from collections import Counter, defaultdict
from itertools import combinations
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from tests.tuner.schedules.variants import variants
from tuner.errors import ScheduleError
from tuner.schedules.generators import RECIPES, generate
from tuner.schedules.lowering import Lowering, lower
from tuner.schedules.messages import message_of, needed_by
from tuner.schedules.program import RECEIVES, SENDS, Collective, Kind, Op, Program
from tuner.schedules.updates import Synchronization

LAWS = settings(max_examples=6, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
EACH_SCHEME = pytest.mark.parametrize("scheme", RECIPES)
EAGER = Lowering(Synchronization("eager", buckets=2))


@st.composite
def lowered(draw: st.DrawFn, scheme: str) -> tuple[Program, Synchronization]:
    """A lowered program of a scheme, with any policy."""
    variant = draw(variants(scheme))
    try:
        program = generate(**variant)
    except ScheduleError:
        reject()
    stages = st.integers(0, program.stages - 1)
    groups = st.sets(stages, min_size=2, max_size=3).map(lambda group: tuple(sorted(group)))
    how = Synchronization(
        policy=draw(st.sampled_from(["lazy", "eager", "eager_opt"])),
        buckets=draw(st.integers(1, 3)),
        sharded=draw(st.booleans()),
        tied=tuple(draw(st.lists(groups, max_size=2))) if program.stages > 1 else (),
    )
    return lower(program, Lowering(how, prefetch=draw(st.integers(0, 3)))), how


def ops_of(program: Program, rank: int) -> list[Op]:
    """The operations of one rank, fused ones apart."""
    return [op for step in program.ranks[rank] for op in step]


def of_kind(program: Program, rank: int, kind: Kind) -> list[Op]:
    """The operations of one kind on a rank."""
    return [op for op in ops_of(program, rank) if op.kind == kind]


def words(program: Program, rank: int) -> str:
    """What is left when messages are passed over."""
    ops = [op for op in ops_of(program, rank) if op.kind not in SENDS | RECEIVES]
    return " ".join(f"{op.kind.name}{op.group if op.kind == Kind.SYNC else op.stage}" for op in ops)


@EACH_SCHEME
@LAWS
@given(data=st.data())
def test_a_value_that_changes_rank_is_sent_and_received_once(scheme: str, data: st.DataObject) -> None:
    """Behind what makes it, and ahead of what uses it; a value that stays on its rank is not sent."""
    program, _ = data.draw(lowered(scheme))
    sent: Counter[object] = Counter()
    received: Counter[object] = Counter()
    needed: Counter[object] = Counter()
    for rank in range(program.depth):
        made: set[Op] = set()
        posted: set[object] = set()
        for op in ops_of(program, rank):
            if op.kind in SENDS:
                assert message_of(op).source(program) == rank
                maker = Kind.F if op.kind == Kind.SEND_F else Kind.B
                assert (maker, *op[1:6]) in made
                sent[message_of(op)] += 1
            elif op.kind in RECEIVES:
                assert message_of(op).target(program) == rank
                posted.add(message_of(op))
                received[message_of(op)] += 1
            elif needed_by(op, program) is not None:
                assert needed_by(op, program) in posted
                needed[needed_by(op, program)] += 1
            made.add((Kind.B if op.kind == Kind.I else op.kind, *op[1:6]))
    assert sent == received == needed
    assert set(sent.values()) <= {1}


@EACH_SCHEME
@LAWS
@given(data=st.data())
def test_every_bucket_stage_and_round_is_synchronised_once(scheme: str, data: st.DataObject) -> None:
    """On each rank that holds the stage, behind the last backward; then one update, then the all-gather."""
    program, how = data.draw(lowered(scheme))
    scatter = Collective.REDUCE_SCATTER if how.sharded else Collective.ALL_REDUCE
    for rank in range(program.depth):
        last: dict[tuple[int, int, int], int] = {}
        syncs: dict[tuple[int, int, int, Collective], list[int]] = defaultdict(list)
        updates: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        buckets: Counter[Op] = Counter()
        rounds = set()
        for position, op in enumerate(ops_of(program, rank)):
            which = op.iteration, op.micro_batch if program.updates == "micro_batch" else -1
            if op.kind in {Kind.B, Kind.W}:
                last[(*which, op.stage)] = position
                rounds.add(which)
            elif op.kind == Kind.SYNC and op.group < program.stages:
                assert op.parts == how.buckets
                syncs[(*which, op.group, op.collective)].append(position)
                buckets[op] += 1
            elif op.kind == Kind.UPDATE:
                updates[(*which, op.stage)].append(position)
        held = (program.placement == rank).nonzero()[1].tolist()
        assert set(buckets.values()) == {1}
        assert set(updates) == {(*which, stage) for which in rounds for stage in held}
        for place, (updated,) in updates.items():
            started = syncs[(*place, scatter)]
            assert len(started) == how.buckets
            assert last.get(place, -1) < min(started)
            assert max(started) < updated
            gathered = syncs.get((*place, Collective.ALL_GATHER), [])
            assert len(gathered) == (how.buckets if how.sharded else 0)
            assert all(updated < position for position in gathered)


@EACH_SCHEME
@LAWS
@given(data=st.data())
def test_two_ranks_start_the_collectives_they_share_in_one_order(scheme: str, data: st.DataObject) -> None:
    """For all pairs of ranks, tied groups and buckets included."""
    program, _ = data.draw(lowered(scheme))
    orders = [
        [
            (op.iteration, op.micro_batch, op.group, op.part, op.collective)
            for op in of_kind(program, rank, Kind.SYNC)
        ]
        for rank in range(program.depth)
    ]
    for one, other in combinations(orders, 2):
        shared = set(one) & set(other)
        assert [key for key in one if key in shared] == [key for key in other if key in shared]


@EACH_SCHEME
@LAWS
@given(data=st.data())
def test_a_round_makes_one_version_of_every_stage(scheme: str, data: st.DataObject) -> None:
    """Counted over the whole run: 1 + iteration, or 1 + iteration·N + micro-batch."""
    program, _ = data.draw(lowered(scheme))
    for rank in range(program.depth):
        versions: dict[tuple[int, int], list[int]] = defaultdict(list)
        for op in of_kind(program, rank, Kind.UPDATE):
            counted = op.iteration
            if program.updates == "micro_batch":
                counted = op.iteration * program.micro_batches + op.micro_batch
            assert op.version == 1 + counted
            versions[op.pipe, op.stage].append(op.version)
        assert all(made == list(range(1, len(made) + 1)) for made in versions.values())


POLICIES = [
    ("lazy", "F0 F1 B1 B0 SYNC1 SYNC0 UPDATE1 UPDATE0"),
    ("eager", "F0 F1 B1 SYNC1 B0 SYNC0 UPDATE1 UPDATE0"),
    ("eager_opt", "F0 F1 B1 B0 SYNC1 SYNC0 UPDATE1 UPDATE0"),
]


@pytest.mark.parametrize(("policy", "expected"), POLICIES)
def test_the_policy_says_when_a_collective_starts(policy: Any, expected: str) -> None:
    """Chimera with D = N = 2: stage 1 is not after the middle, 1 > 2/2."""
    program = lower(generate("chimera", depth=2, micro_batches=2), Lowering(Synchronization(policy)))
    assert words(program, 0) == expected


def test_eager_opt_starts_early_behind_the_middle_only() -> None:
    """Chimera with D = N = 4: stage 3 of rank 0 at once, stages 1 and 2 of rank 1 at the end."""
    program = lower(generate("chimera", depth=4, micro_batches=4))
    assert words(program, 0) == "F0 F0 F3 B3 F3 B3 SYNC3 B0 B0 SYNC0 UPDATE3 UPDATE0"
    assert words(program, 1).endswith("B2 B1 SYNC2 SYNC1 UPDATE2 UPDATE1")


def test_a_later_stage_that_is_ready_first_waits_for_nobody() -> None:
    """Eager: both stages of rank 1 start as soon as they are complete, the later one first."""
    program = lower(generate("chimera", depth=4, micro_batches=4), Lowering(Synchronization("eager")))
    assert words(program, 1).endswith("B2 SYNC2 B1 SYNC1 UPDATE2 UPDATE1")


@pytest.mark.parametrize("scheme", ["gems", "chimera", "chimera_split"])
@pytest.mark.parametrize("policy", ["lazy", "eager", "eager_opt"])
def test_a_pipe_without_micro_batches_is_updated_too(scheme: str, policy: Any) -> None:
    """N = 1 leaves the up pipe empty; its replicas need the gradients of the down pipe."""
    program = lower(generate(scheme, depth=4, micro_batches=1), Lowering(Synchronization(policy)))
    for rank in range(4):
        held = {rank, 3 - rank}
        assert {op.group for op in of_kind(program, rank, Kind.SYNC)} == held
        assert {op.stage for op in of_kind(program, rank, Kind.UPDATE)} == held


def test_tied_groups_come_after_the_stages_and_before_the_updates() -> None:
    """Embedding and head of 1F1B: the first and the last rank share group S."""
    tied = Lowering(Synchronization(tied=((0, 3),), buckets=1))
    program = lower(generate("dapple", depth=4, micro_batches=4), tied)
    assert [words(program, rank).split("B")[-1] for rank in (0, 1, 3)] == [
        "0 SYNC0 SYNC4 UPDATE0",
        "1 SYNC1 UPDATE1",
        "3 SYNC3 SYNC4 UPDATE3",
    ]


def test_both_members_of_a_tied_group_on_one_rank_join_once() -> None:
    """Chimera's first rank holds embedding and head, and is one member."""
    program = lower(generate("chimera", depth=4, micro_batches=4), Lowering(Synchronization(tied=((0, 3),))))
    assert [op.group for op in of_kind(program, 0, Kind.SYNC)] == [3, 0, 4]
    assert [op.group for op in of_kind(program, 1, Kind.SYNC)] == [2, 1]


def test_a_sharded_optimizer_scatters_updates_and_gathers() -> None:
    """Tied groups are still reduced whole."""
    sharded = Lowering(Synchronization(sharded=True, tied=((0, 1),)))
    program = lower(generate("dapple", depth=2, micro_batches=2), sharded)
    done = [op for op in ops_of(program, 0) if op.kind in {Kind.SYNC, Kind.UPDATE}]
    assert [(op.group, op.collective.name) if op.kind == Kind.SYNC else op.kind.name for op in done] == [
        (0, "REDUCE_SCATTER"),
        (2, "ALL_REDUCE"),
        "UPDATE",
        (0, "ALL_GATHER"),
    ]


def test_pipedream_updates_after_every_micro_batch() -> None:
    """Stage s makes version 1 + iteration·N + micro-batch, right behind that backward and its collective."""
    program = lower(generate("pipedream", depth=3, micro_batches=2, iterations=3), EAGER)
    for rank in range(3):
        ops = [op for op in ops_of(program, rank) if op.kind in {Kind.B, Kind.SYNC, Kind.UPDATE}]
        for number in range(6):
            backward, first, second, update = ops[4 * number : 4 * number + 4]
            assert (backward.kind, first.kind, second.kind) == (Kind.B, Kind.SYNC, Kind.SYNC)
            assert (update.kind, update.version) == (Kind.UPDATE, number + 1)
            for op in (backward, first, second, update):
                assert (op.iteration, op.micro_batch) == divmod(number, 2)


@pytest.mark.parametrize("scheme", RECIPES)
def test_every_weight_version_that_is_read_has_been_made(scheme: str) -> None:
    """On every rank, 0 being the initial weights: all copies of a stage are updated alike."""
    depth, count = 4, 8
    program = lower(generate(scheme, depth=depth, micro_batches=count, iterations=3))
    for rank in range(depth):
        newest: Counter[tuple[int, int]] = Counter()
        for op in ops_of(program, rank):
            if op.kind == Kind.UPDATE:
                newest[op.pipe, op.stage] = op.version
            elif op.kind in {Kind.F, Kind.B, Kind.I, Kind.W}:
                assert op.version <= newest[op.pipe, op.stage]


def test_messages_inside_a_rank_are_none() -> None:
    """The two stages in the middle of ZB-V are on the last rank, and D = 1 needs no message at all."""
    program = lower(generate("zb_v", depth=3, micro_batches=5))
    cuts = {message_of(op).cut for rank in range(3) for op in ops_of(program, rank) if op.kind in SENDS}
    assert cuts == {0, 1, 3, 4}
    for scheme in ("gpipe", "dapple", "zb_h1", "zb_v"):
        assert not {op.kind for op in ops_of(lower(generate(scheme, depth=1, micro_batches=2)), 0)} & SENDS


def test_a_fused_pair_stays_one_step() -> None:
    """Its messages stand before and behind it."""
    plain = generate("dualpipe", depth=4, micro_batches=8)
    program = lower(plain)
    pairs = [[step for step in ranks if len(step) > 1] for ranks in (*plain.ranks, *program.ranks)]
    assert pairs[:4] == pairs[4:]
    assert all(pairs)
