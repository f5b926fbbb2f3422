"""Can a lowered program come to its end? Walks it under the rules of a transport, without any times.

Modes
    buffered    a message is there as soon as it has been sent and its receive posted; a send never waits
    rendezvous  a send completes once its receive is posted (gloo with tags)
    ordered     the transfers between two ranks, either way, complete in program order on both (NCCL)

A SEND waits for its value. SEND and RECV start a transfer and go on; with `blocking` they return when it is
complete, as in programs from outside. Collectives run in program order on every rank, in every mode, and need
every rank that holds one of their stages.
"""

from collections import defaultdict
from collections.abc import Hashable
from functools import partial
from typing import Literal

from tuner.errors import DeadlockError
from tuner.schedules.messages import Message, made_by, message_of, needed_by
from tuner.schedules.program import RECEIVES, SENDS, Kind, Op, Program

Mode = Literal["buffered", "rendezvous", "ordered"]


def dry_run(program: Program, mode: Mode = "rendezvous", *, blocking: bool = False) -> None:
    """Return if the program ends; raises DeadlockError naming the operation at which each rank is blocked."""
    _Walk(program, mode, blocking=blocking).run()


class _Walk:
    def __init__(self, program: Program, mode: Mode, *, blocking: bool) -> None:
        self._program = program
        self._mode = mode
        self._blocking = blocking
        self._ops = [[op for step in steps for op in step] for steps in program.ranks]
        self._at = [0] * len(self._ops)
        made = (made_by(op, program) for ops in self._ops for op in ops)
        self._unmade = {message for message in made if message is not None}
        """What operations of the program have yet to make; a part of a program may send what others made."""
        self._sent: set[Message] = set()
        self._posted: set[Message] = set()
        self._complete: set[Message] = set()
        self._queues = self._transfer_queues() if mode == "ordered" else {}
        self._members = self._collective_members()
        self._turns = [[_collective(op) for op in ops if op.kind == Kind.SYNC] for ops in self._ops]
        self._arrived: dict[Hashable, set[int]] = defaultdict(set)
        self._awaited: dict[tuple[int, Hashable], list[Hashable]] = defaultdict(list)
        """What the UPDATEs of a rank's round wait for."""
        self._reduced: set[tuple[int, Hashable]] = set()

    def run(self) -> None:
        """Let every rank go on as far as it gets, until nothing moves."""
        moved = True
        while moved:
            moved = sum(self._advance(rank) for rank in range(len(self._ops))) > 0
        blocked = [rank for rank, ops in enumerate(self._ops) if self._at[rank] < len(ops)]
        if blocked:
            places = [f"rank {rank} at {self._ops[rank][self._at[rank]]}" for rank in blocked]
            raise DeadlockError(f"{self._mode}: blocked for ever: {'; '.join(places)}")
        self._check_nothing_pending()

    def _advance(self, rank: int) -> bool:
        moved = False
        while self._at[rank] < len(self._ops[rank]):
            op = self._ops[rank][self._at[rank]]
            if not self._starts(rank, op):
                return moved
            self._at[rank] += 1
            moved = True
        return moved

    def _starts(self, rank: int, op: Op) -> bool:
        """Do what `op` does on reaching it; whether the rank may go on."""
        if op.kind in SENDS or op.kind in RECEIVES:
            message = message_of(op)
            if op.kind in SENDS and message in self._unmade:
                return False
            (self._sent if op.kind in SENDS else self._posted).add(message)
            self._settle(message)
            done = message in self._complete or (op.kind in SENDS and self._mode == "buffered")
            return done or not self._blocking
        if op.kind == Kind.SYNC:
            self._awaited[self._round(rank, op)].append(_collective(op))
            self._arrive(rank, _collective(op))
            return True
        if op.kind == Kind.UPDATE:
            return all((rank, awaited) in self._reduced for awaited in self._awaited[self._round(rank, op)])
        needed = needed_by(op, self._program)
        if needed is not None and needed not in self._complete:
            return False
        made = made_by(op, self._program)
        if made is not None:
            self._unmade.discard(made)
        return True

    def _settle(self, message: Message) -> None:
        """Complete `message`, and in ordered mode what waited behind it, if both ends are ready."""
        pair = frozenset((message.source(self._program), message.target(self._program)))
        queue = self._queues.get(pair)
        if queue is None:
            if message in self._sent and message in self._posted:
                self._complete.add(message)
            return
        while all(queue.values()):
            heads = {messages[-1] for messages in queue.values()}
            head = heads.pop()
            if heads or head not in self._sent or head not in self._posted:
                return
            self._complete.add(head)
            for messages in queue.values():
                messages.pop()

    def _transfer_queues(self) -> dict[frozenset[int], dict[int, list[Message]]]:
        """What each rank transfers with each other one, in its own order, the first one last."""
        queues: dict[frozenset[int], dict[int, list[Message]]] = defaultdict(lambda: defaultdict(list))
        for rank, ops in enumerate(self._ops):
            for op in reversed(ops):
                if op.kind in SENDS or op.kind in RECEIVES:
                    message = message_of(op)
                    pair = frozenset((message.source(self._program), message.target(self._program)))
                    queues[pair][rank].append(message)
        return dict(queues)

    def _collective_members(self) -> dict[Hashable, set[int]]:
        """The ranks that join each collective; raises DeadlockError where one that must does not."""
        members: dict[Hashable, set[int]] = defaultdict(set)
        syncs: dict[Hashable, dict[tuple[int, int], Op]] = defaultdict(dict)
        jobs = self._program.jobs
        for rank, ops in enumerate(self._ops):
            for op in ops:
                if op.kind == Kind.SYNC:
                    members[_collective(op)].add(rank)
                    syncs[_collective(op)][int(jobs[op.pipe]), op.stage] = op
        holders = {
            (job, stage): set(self._program.placement[jobs == job, stage].tolist())
            for job in set(jobs.tolist())
            for stage in range(self._program.stages)
        }
        for collective, named in syncs.items():
            for place, op in named.items():
                for rank in sorted(holders[place] - members[collective]):
                    raise DeadlockError(f"{self._mode}: {op} waits for rank {rank}, which does not join it")
        return members

    def _arrive(self, rank: int, collective: Hashable) -> None:
        """Run every collective whose members have all arrived and whose turn has come on all of them."""
        self._arrived[collective].add(rank)
        ready = [collective]
        while ready:
            candidate = ready.pop()
            members = self._members[candidate]
            turns = [self._turns[member] for member in members]
            if self._arrived[candidate] == members and all(turn and turn[0] == candidate for turn in turns):
                self._reduced.update((member, candidate) for member in members)
                for turn in turns:
                    turn.pop(0)
                ready.extend(turn[0] for turn in turns if turn)

    def _round(self, rank: int, op: Op) -> tuple[int, Hashable]:
        """What a SYNC and the UPDATEs that wait for it have in common."""
        return rank, (int(self._program.jobs[op.pipe]), op.iteration, op.micro_batch)

    def _check_nothing_pending(self) -> None:
        """What never completes keeps the end of the iteration waiting."""
        pending = [
            next(filter(partial(self._is_pending, rank), ops), None) for rank, ops in enumerate(self._ops)
        ]
        places = [f"rank {rank} at {op}" for rank, op in enumerate(pending) if op is not None]
        if places:
            raise DeadlockError(f"{self._mode}: never complete: {'; '.join(places)}")

    def _is_pending(self, rank: int, op: Op) -> bool:
        if op.kind in SENDS or op.kind in RECEIVES:
            return message_of(op) not in self._complete
        return op.kind == Kind.SYNC and (rank, _collective(op)) not in self._reduced


def _collective(op: Op) -> Hashable:
    return op.iteration, op.micro_batch, op.group, op.part, op.collective
