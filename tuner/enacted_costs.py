"""What does every operation of one configuration cost, given its stages on the cluster of a request?"""

from tuner.evaluated import Variant
from tuner.evaluation import Evaluator
from tuner.operation_costs import OperationCosts
from tuner.stage_costs import StageCosts


def enacted_costs(
    evaluator: Evaluator, variant: Variant, stages: StageCosts, *, index: int
) -> OperationCosts:
    """The costs of `variant` at one of the micro-batch sizes of `stages`."""
    scheme, layout = variant.scheme, variant.layout
    network, synchronization = evaluator.network(layout), evaluator.synchronization
    latency, per_byte = network.links()
    copies = len(scheme.placement(layout.depth, variant.pipe_pairs))
    sync = synchronization.collective_s(stages, network, copies=copies, stopped=not scheme.eager_opt)[index]
    backward = stages.backward_s[index]
    recomputed = stages.recomputed_forward_s[variant.recompute][index]
    update_s = evaluator.costs.stage_update_s(stages, replicas=copies * layout.width)[index]
    return OperationCosts(
        forward_s=stages.forward_s[index],
        backward_s=backward + recomputed,
        weight_gradient_s=stages.weight_backward_s[index],
        split_s=stages.split_s[index],
        recompute_s=recomputed,
        # A rank updates copies·v stages, which share what every iteration takes.
        update_s=update_s + evaluator.costs.overhead_s / (copies * scheme.chunks),
        sync_s=sync,
        latency_s=latency,
        seconds_per_byte=per_byte,
        message_bytes=stages.cut_bytes[index],
        lanes=synchronization.lanes,
        compress_s=synchronization.before_s(stages, copies=copies, width=layout.width)[index],
        decompress_s=synchronization.after_s(stages, network, copies=copies)[index],
    )
