"""How long does an iteration take? Equation 1 of Chimera (Li & Hoefler, SC'21), for stages that may differ.

    T = (F + p2p)·C_f + (B + p2p)·C_b + max_i unoverlapped all-reduce(i) + optimizer step

With equal stages F and B are their times. With unequal ones the work of the busiest rank counts N times, and
the bubble's steps C_f − N and C_b − N take the mean of the stages other than the slowest: exact for GPipe and
DAPPLE whose slowest stage is the last, within 5 % on average of the simulated order for Chimera.
"""

from dataclasses import dataclass, fields

import numpy as np

from tuner.memory import ParameterBytes
from tuner.network import Network
from tuner.ranks import placement_of, rank_parameters, rank_update_s, to_ranks
from tuner.recomputed import Recomputed
from tuner.request import PlanRequest
from tuner.schedules import Case, CriticalPath, Scheme
from tuner.schedules.scheme import Floats
from tuner.stage_costs import StageCosts
from tuner.synchronization import Synchronization


@dataclass(frozen=True)
class IterationTimes:
    """Seconds of one iteration by part [b]."""

    work_s: Floats
    """Forwards and backwards of the busiest rank, recomputation included."""
    mean_work_s: Floats
    """The same of the mean rank."""
    update_s: Floats
    bubble_s: Floats
    p2p_s: Floats
    all_reduce_s: Floats

    @property
    def iteration_s(self) -> Floats:
        """The parts together."""
        return self.work_s + self.update_s + self.bubble_s + self.p2p_s + self.all_reduce_s

    def rows(self, which: slice) -> "IterationTimes":
        """Of some of the rows."""
        return IterationTimes(*(getattr(self, field.name)[which] for field in fields(self)))


@dataclass(frozen=True)
class CostModel:
    """What the times of all configurations of one request depend on."""

    request: PlanRequest
    synchronization: Synchronization
    update_bytes_per_s: float
    """Memory bandwidth that the optimizer step reaches, the software's factor included."""
    overhead_s: float = 0.0
    """What every optimizer step takes beyond its memory traffic."""

    def times(
        self, scheme: Scheme, stages: StageCosts, case: Case, *, network: Network, recomputed: Recomputed
    ) -> IterationTimes:
        """Equation 1 of every row."""
        backward = stages.backward_s + recomputed.forward_s
        if scheme.splits_backward:
            backward = backward + stages.split_s
        path = scheme.critical_path(case)
        work, mean_work, fill = _compute(scheme, case, path, forward_s=stages.forward_s, backward_s=backward)
        return IterationTimes(
            work_s=work,
            mean_work_s=mean_work,
            update_s=self._update_s(scheme, stages, case, width=network.width),
            bubble_s=fill,
            p2p_s=_messages_s(stages, case, path, network=network),
            all_reduce_s=self.synchronization.exposed_s(
                scheme, stages, case, backward_s=backward, network=network
            ),
        )

    def _update_s(self, scheme: Scheme, stages: StageCosts, case: Case, *, width: int) -> Floats:
        """The optimizer step of the rank whose takes longest [b]."""
        placement = placement_of(scheme, case.depth, case.pipe_pairs)
        replicas = len(placement) * width
        ranks_s = rank_update_s(stages, placement)
        if ranks_s is None:
            ranks_s = rank_parameters(stages, placement) * self._update_s_per_parameter(replicas)
        else:
            ranks_s = ranks_s / self._shards(replicas)
        updates = case.micro_batches if scheme.name == "pipedream" else np.ones_like(case.micro_batches)
        return np.asarray(updates * (ranks_s.max(axis=1) + self.overhead_s), dtype=np.float64)

    def stage_update_s(self, stages: StageCosts, *, replicas: int) -> Floats:
        """The optimizer step of every stage [b, s]: as measured, else by its memory traffic."""
        measured = stages.all_update_s
        if measured is not None:
            return measured / self._shards(replicas)
        return stages.all_parameters * self._update_s_per_parameter(replicas)

    def _shards(self, replicas: int) -> int:
        return replicas if self.request.optimizer_sharding == "replicas" else 1

    def _update_s_per_parameter(self, replicas: int) -> float:
        """Reading and writing the optimizer state, reading the gradient, reading and writing the weight."""
        each = ParameterBytes.of(self.request)
        moved = 2 * each.optimizer + each.gradients + 2 * each.weights
        return moved / self._shards(replicas) / self.update_bytes_per_s


def _compute(
    scheme: Scheme, case: Case, path: CriticalPath, *, forward_s: Floats, backward_s: Floats
) -> tuple[Floats, Floats, Floats]:
    """Work of the busiest and of the mean rank, and what the critical path adds to the former [b]."""
    placement = placement_of(scheme, case.depth, case.pipe_pairs)
    both = forward_s + backward_s
    load = scheme.shares(case)[:, :, None] * both[:, None, :]
    loads = to_ranks(load, placement, "sum")
    work = loads.max(axis=1)
    rows = np.arange(len(both))
    slowest = both.argmax(axis=1)
    others = max(1, case.stages - 1)
    steps = case.micro_batches * case.chunks
    other_forward = (forward_s.sum(axis=1) - forward_s[rows, slowest]) / others
    other_backward = (backward_s.sum(axis=1) - backward_s[rows, slowest]) / others
    fill = (path.forwards - steps) * other_forward + (path.backwards - steps) * other_backward
    chain = forward_s + backward_s / 2 if scheme.splits_backward else both
    at_least = chain.sum(axis=1) if scheme.synchronous else work
    return work, loads.mean(axis=1), np.maximum(fill, at_least - work)


def _messages_s(stages: StageCosts, case: Case, path: CriticalPath, *, network: Network) -> Floats:
    """Every step of the critical path waits for one message; halving sends gradients in two halves [b]."""
    hops = max(1, case.stages - 1)
    message = stages.cut_bytes.sum(axis=1) / hops
    backward_messages = 2 * path.backwards if case.scaling == "halving" else path.backwards
    backward_size = message / 2 if case.scaling == "halving" else message
    return path.forwards * network.hop_s(message) + backward_messages * network.hop_s(backward_size)
