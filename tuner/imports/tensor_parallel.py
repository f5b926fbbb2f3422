"""What does one rank of a tensor-parallel group hold and take? An estimate, to compare plans within one T.

Weights and work of every layer are divided by T (Shoeybi et al., arXiv 1909.08053), activations by eq. 2 of
Korthikanti et al. (arXiv 2205.05198): 24 of 34 parts, or all with sequence parallelism. A block adds two
all-reduces of its hidden states to its forward and two to its backward, over the links inside the node.
"""

from math import ceil, log2

from profiles.cluster import ClusterProfile, Transfer
from profiles.device import Accelerator
from profiles.model import Bytes, Layer, ModelDescription
from profiles.timings import LayerTimings, Profile, TypeTimings
from tuner.errors import RequestError
from tuner.estimate import estimate_timings
from tuner.families.assembly import ITEMSIZES

_SIZES = tuple(2**power for power in range(11))
_NOT_DIVIDED = 10 / 34
_SUMS = {"embedding": (1, 0), "block": (2, 2), "head": (0, 1), "loss": (0, 0)}
"""All-reduces of hidden states in the forward and in the backward of a layer."""


def groups_of(cluster: ClusterProfile, tensor_parallel: int) -> ClusterProfile:
    """The cluster with groups of T devices as one; raises RequestError where a node holds no whole groups."""
    node = cluster.node
    if node.devices % tensor_parallel:
        raise RequestError(
            f"tensor-parallel groups of {tensor_parallel} do not fill the {node.devices} devices of a node "
            f"of {cluster.name}: their links would be those between nodes, which is not modelled"
        )
    groups = node.devices // tensor_parallel
    most = None if cluster.max_devices is None else cluster.max_devices // tensor_parallel
    smaller = node.model_copy(update={"devices": groups, "link": node.link if groups > 1 else None})
    return cluster.model_copy(update={"node": smaller, "max_devices": most})


def profile_of_rank(
    description: ModelDescription,
    accelerator: Accelerator,
    cluster: ClusterProfile,
    *,
    tensor_parallel: int,
    sequence_parallel: bool,
) -> Profile:
    """The estimated profile of one rank of a group; `cluster` is that of single devices.

    Raises RequestError where the heads do not divide over the group.
    """
    _check_heads(description, tensor_parallel)
    kept = 1 / tensor_parallel if sequence_parallel else _NOT_DIVIDED + (1 - _NOT_DIVIDED) / tensor_parallel
    layers = tuple(
        _share(layer, tensor_parallel, kept=kept, sequence_parallel=sequence_parallel)
        for layer in description.layers
    )
    part = description.model_copy(update={"layers": layers, "source": "uploaded"})
    timings = estimate_timings(part, accelerator, micro_batch_sizes=_SIZES)
    link = cluster.node.link.collective if cluster.node.link else cluster.link.collective
    hidden = description.sequence_length * description.hidden_size * ITEMSIZES[description.precision]
    kinds = {layer.type: layer.kind for layer in layers}
    types = tuple(
        _with_sums(entry, _SUMS[kinds[entry.type]], hidden=hidden, link=link, ranks=tensor_parallel)
        for entry in timings.types
    )
    told = f"One of {tensor_parallel} tensor-parallel ranks, estimated. {timings.source}"[:2_000]
    return Profile(
        description=ModelDescription.model_validate(part.model_dump()),
        timings=LayerTimings.model_validate(
            timings.model_copy(update={"types": types, "source": told}).model_dump()
        ),
    )


def _check_heads(description: ModelDescription, ranks: int) -> None:
    for layer in description.layers:
        heads = layer.shape.get("heads")
        if isinstance(heads, int) and heads % ranks:
            raise RequestError(
                f"{heads} attention heads do not divide over T={ranks} devices, which Megatron-LM refuses "
                "too: give a --tensor-model-parallel-size that divides them"
            )


def _share(layer: Layer, ranks: int, *, kept: float, sequence_parallel: bool) -> Layer:
    """A layer's part on one rank."""
    inside = 1 / ranks if layer.kind == "loss" else kept
    crossing = 1 / ranks if sequence_parallel else 1.0
    arriving = layer.arriving_bytes
    return layer.model_copy(
        update={
            "parameters": _divided(layer.parameters, ranks),
            "active_parameters": _divided(layer.active_parameters, ranks),
            "tied_parameters": _divided(layer.tied_parameters, ranks),
            "forward_flops": _divided(layer.forward_flops, ranks),
            "backward_flops": _divided(layer.backward_flops, ranks),
            "activation_bytes": _scaled(layer.activation_bytes, inside),
            "transient_bytes": _scaled(layer.transient_bytes, inside),
            "arriving_bytes": None if arriving is None else _scaled(arriving, inside),
            "cut_bytes": _scaled(layer.cut_bytes, crossing),
            # Published timings are of whole layers.
            "shape": {},
        }
    )


def _divided(count: int, ranks: int) -> int:
    return -(-count // ranks)


def _scaled(size: Bytes, factor: float) -> Bytes:
    return Bytes(per_sample=ceil(size.per_sample * factor), fixed=ceil(size.fixed * factor))


def _with_sums(
    entry: TypeTimings, sums: tuple[int, int], *, hidden: int, link: Transfer, ranks: int
) -> TypeTimings:
    """Times with the all-reduces that each forward and backward waits for."""

    def one_s(samples: int) -> float:
        moved = 2 * (ranks - 1) / ranks * hidden * samples / link.bandwidth_bytes_per_s
        return 2 * log2(ranks) * link.latency_s + moved

    points = tuple(
        point.model_copy(
            update={
                "forward_s": point.forward_s + sums[0] * one_s(point.micro_batch_size),
                "backward_s": point.backward_s + sums[1] * one_s(point.micro_batch_size),
            }
        )
        for point in entry.points
    )
    return entry.model_copy(update={"points": points})
