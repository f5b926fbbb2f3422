"""What does every operation of one configuration cost, given its stages on the cluster of a request?"""

import numpy as np

from tuner.evaluated import Variant
from tuner.evaluation import Evaluator
from tuner.operation_costs import OperationCosts
from tuner.schedules.scheme import Integers
from tuner.stage_costs import StageCosts


def enacted_costs(
    evaluator: Evaluator, variant: Variant, stages: StageCosts, *, index: int
) -> OperationCosts:
    """The costs of `variant` at one of the micro-batch sizes of `stages`."""
    scheme, layout = variant.scheme, variant.layout
    network, synchronization = evaluator.network(layout), evaluator.synchronization
    overlap = network.overlap
    beside = network if overlap is None else network.beside_computation
    latency, per_byte = beside.links()
    placement = scheme.placement(layout.depth, variant.pipe_pairs)
    copies, stopped = len(placement), not scheme.eager_opt
    sync = synchronization.collective_s(stages, network, copies=copies, stopped=stopped)[index]
    sync_beside = None
    if overlap:
        sync_beside = synchronization.collective_s(stages, beside, copies=copies, stopped=stopped)[index]
    occupied = message_ends(placement[0]) * overlap.occupancy_s if overlap else 0.0
    backward = stages.backward_s[index] + occupied
    recomputed = stages.recomputed_forward_s[variant.recompute][index]
    update_s = evaluator.costs.stage_update_s(stages, replicas=copies * layout.width)[index]
    return OperationCosts(
        forward_s=stages.forward_s[index] + occupied,
        backward_s=backward + recomputed,
        weight_gradient_s=stages.weight_backward_s[index],
        split_s=stages.split_s[index],
        recompute_s=recomputed,
        # A rank updates copies·v stages, which share what every iteration takes.
        update_s=update_s + evaluator.costs.overhead_s / (copies * scheme.chunks),
        sync_s=sync,
        slow_down=overlap.slow_down if overlap else 0.0,
        sync_beside_s=sync_beside,
        latency_s=latency,
        seconds_per_byte=per_byte,
        message_bytes=stages.cut_bytes[index],
        lanes=synchronization.lanes,
        compress_s=synchronization.before_s(stages, copies=copies, width=layout.width)[index],
        decompress_s=synchronization.after_s(stages, network, copies=copies)[index],
    )


def message_ends(ranks: Integers) -> Integers:
    """Messages that a forward of each stage sends or receives, or a backward: those over cuts between ranks.

    `ranks` are those of the stages of one pipe [s].
    """
    travels = np.concatenate([[False], ranks[1:] != ranks[:-1], [False]])
    return np.asarray(travels[:-1].astype(np.int64) + travels[1:])
