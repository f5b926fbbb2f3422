"""How much of the gradient synchronisation do the bubbles not hide (section 3.2 and eq. 1 of the paper)?"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from tuner.compression import NONE, SCATTERED, Compression
from tuner.memory import ParameterBytes
from tuner.network import Network
from tuner.ranks import by_rank, placement_of, to_ranks
from tuner.request import PlanRequest
from tuner.schedules import Case, Scheme
from tuner.schedules.scheme import Floats, Integers
from tuner.stage_costs import StageCosts


@dataclass(frozen=True)
class Synchronization:
    """The gradient collectives of an iteration."""

    request: PlanRequest
    lanes: int
    """How many collectives of one rank run at once without slowing each other down."""
    compression: Compression = NONE
    bytes_per_s: float = np.inf
    """What the memory moves, for the time of compressing."""

    def exposed_s(
        self, scheme: Scheme, stages: StageCosts, case: Case, *, backward_s: Floats, network: Network
    ) -> Floats:
        """The most that any rank's collectives run past the end of the compute [b]; backward_s is [b, s].

        PipeDream waits for every micro-batch's collective, PipeDream-2BW hides it behind the next mini-batch.
        """
        placement = placement_of(scheme, case.depth, case.pipe_pairs)
        copies = len(placement)
        length = self.collective_s(stages, network, copies=copies, stopped=not scheme.eager_opt)
        length = length + self.before_s(stages, copies=copies, width=network.width)
        if scheme.name == "pipedream":
            return np.asarray(length.max(axis=1))
        if not scheme.synchronous:
            busy = case.micro_batches * (stages.forward_s + backward_s).max(axis=1)
            return np.asarray(np.maximum(0.0, length.max(axis=1) - busy))
        starts = _starts(scheme, case, placement, backward_s=backward_s)
        ends = self._last_end(starts, by_rank(length[:, None, :], placement))
        exposed = np.maximum(0.0, ends.max(axis=1))
        if self.compression == NONE:
            return np.asarray(exposed)
        after = self.after_s(stages, network, copies=copies)
        return np.asarray(exposed + to_ranks(after[:, None, :], placement, "sum").max(axis=1))

    def collective_s(self, stages: StageCosts, network: Network, *, copies: int, stopped: bool) -> Floats:
        """Time of each stage's collective over copies·W replicas [b, s]; `stopped` as `Network.all_reduce_s`.

        Where a second one needs what it has summed, that is in `after_s`: no computation hides it. With one
        pipe, tied parameters on two ranks are also summed between those.
        """
        how, sent = self.compression, self.volume_bytes(stages)
        if how.collective == "all_gather":
            time = network.all_gather_s(sent, copies, stopped=stopped)
        else:
            first = sent if how == NONE else sent - how.following_bytes(stages.all_parameters)
            time = network.all_reduce_s(first, copies, stopped=stopped)
        if copies == 1 and network.depth > 1:
            gradients = ParameterBytes.of(self.request).gradients
            for parameters, member in stages.tied:
                size = how.volume_bytes(np.full(1, parameters), gradients)
                time = time + member * 2 * network.hop_s(size)
        return time

    def before_s(self, stages: StageCosts, *, copies: int, width: int) -> Floats:
        """Compressing the gradients of each stage, which its rank does before the collective [b, s]."""
        if copies * width == 1:
            return np.zeros_like(stages.all_parameters)
        return self.compression.before_s(stages.all_parameters, self.bytes_per_s)

    def after_s(self, stages: StageCosts, network: Network, *, copies: int) -> Floats:
        """What follows the collective of each stage, while its rank waits [b, s].

        A second collective with what it sends, decompressing, and averaging weights at times. The second ones
        of several stages on a rank may overlap, so their sum is the most that they take.
        """
        how, replicas = self.compression, copies * network.width
        if replicas == 1:
            return np.zeros_like(stages.all_parameters)
        time = how.after_s(stages.all_parameters, self.bytes_per_s, replicas=replicas)
        following = how.following_bytes(stages.all_parameters)
        if following.any():
            second_s = network.all_reduce_s(following, copies, stopped=True)
            time = time + how.between_s(stages.all_parameters, self.bytes_per_s)
            time = time + np.where(following > 0, second_s, 0.0)
        if how.average_every is not None:
            size = 4 * stages.all_parameters
            time = time + network.all_reduce_s(size, copies, stopped=True) / how.average_every
        return time

    def volume_bytes(self, stages: StageCosts) -> Floats:
        """What a replica of each stage gives to collectives [b, s]; where sharded as one all-reduce."""
        each, parameters = ParameterBytes.of(self.request), stages.all_parameters
        if self.request.optimizer_sharding == "replicas" and self.compression.name in SCATTERED:
            gradients = each.gradients if self.compression == NONE else 2
            return parameters * (gradients + each.weights) / 2
        return self.compression.volume_bytes(parameters, each.gradients)

    def _last_end(self, starts: list[Floats], lengths: list[Floats]) -> Floats:
        """When the last collective of each rank ends [b, w], from those of its stages; `lanes` at once."""
        if len(starts) == 1:
            return starts[0] + lengths[0]
        # When each lane is free, the first to be so in front.
        free = [np.full_like(starts[0], -np.inf)] * self.lanes
        for start, length in _in_order(starts, lengths):
            end = np.maximum(free[0], start) + length
            for lane in range(1, self.lanes):
                free[lane - 1], end = np.minimum(free[lane], end), np.maximum(free[lane], end)
            free[-1] = end
        return free[-1]


def _in_order(starts: list[Floats], lengths: list[Floats]) -> Iterable[tuple[Floats, Floats]]:
    """Starts and lengths of the collectives of each rank, first to last; of equals as they stand."""
    if all(start is starts[0] for start in starts):
        return zip(starts, lengths, strict=True)
    if len(starts) == 2:
        swapped = starts[1] < starts[0]
        return zip(
            *((np.where(swapped, two, one), np.where(swapped, one, two)) for one, two in (starts, lengths)),
            strict=True,
        )
    start, length = np.stack(starts), np.stack(lengths)
    order = np.argsort(start, axis=0, kind="stable")
    in_order = (np.take_along_axis(values, order, axis=0) for values in (start, length))
    return zip(*in_order, strict=True)


def _starts(scheme: Scheme, case: Case, placement: Integers, *, backward_s: Floats) -> list[Floats]:
    """When the collective of each stage that a rank holds may start, against the end of the compute [b, w].

    Stage s has its last gradient Σ_{i<s} B_i before the end. Under eager-sync-opt the stages after the middle
    start then, the others when their rank has finished (with one pipe that is the same moment).
    """
    since = by_rank((np.cumsum(backward_s, axis=1) - backward_s)[:, None, :], placement)
    finished = -reduce(np.minimum, since)
    if not scheme.eager_opt or len(since) == 1:
        return [finished] * len(since)
    behind_middle = np.arange(case.stages) > case.stages / 2
    early = by_rank(behind_middle[None, None, :], placement)
    return [np.where(when, -own, finished) for when, own in zip(early, since, strict=True)]
