"""How are the devices of a cluster connected, and what does its software add?"""

from math import log2
from typing import Annotated, Literal

from pydantic import Field

from profiles.document import (
    FIRST_FAULT,
    Count,
    Document,
    Name,
    Part,
    PositiveCount,
    PositiveRate,
    PositiveSeconds,
    Provenance,
    Seconds,
)


class Transfer(Part):
    """Time of a message of L bytes: `latency_s + L / bandwidth_bytes_per_s` (the paper's α + β·L)."""

    latency_s: Seconds
    bandwidth_bytes_per_s: PositiveRate


class FitPoint(Part):
    """What messages of one size took."""

    message_bytes: PositiveCount
    """Of a collective, the whole value that is reduced, gathered or scattered."""
    seconds: PositiveSeconds
    """Median: one way of a message, from its send to its receiver going on."""
    spread: Annotated[float, Field(ge=0)]
    """Interquartile range over median."""
    repeats: PositiveCount


def formula_factors(operation: str, processes: int) -> tuple[float, float]:
    """What α and β·L are multiplied by: 2·log2(r) and 2·(r−1)/r of an all-reduce, half of them otherwise.

    A message between two has both once.
    """
    if operation == "p2p":
        return 1.0, 1.0
    rounds = 2 if operation == "all_reduce" else 1
    return rounds * log2(processes), rounds * (processes - 1) / processes


class LinkFit(Part):
    """How well a latency and a bandwidth explain what one operation took."""

    operation: Literal["p2p", "all_reduce", "all_gather", "reduce_scatter"]
    processes: PositiveCount
    transfer: Transfer
    """As in `Link`; a gather or a scatter takes half of `Link.collective`'s formula."""
    residual: Annotated[float, Field(ge=0)]
    """Median of the absolute relative errors of the points."""
    largest_residual: Annotated[float, Field(ge=0)]
    latency_is_bound: bool = False
    """The latency was too small to be told, and is given as 0."""
    points: Annotated[tuple[FitPoint, ...], FIRST_FAULT, Field(min_length=2, max_length=1_000)]


class Overlap(Part):
    """What communication over a link takes while its ranks compute, and what computation loses to it."""

    slow_down: Annotated[float, Field(ge=0, le=100)]
    """While a collective runs, the computation of its ranks takes 1 + slow_down times as long."""
    slow_down_spread: Annotated[float, Field(ge=0, le=1_000)]
    """Interquartile range of what was measured of it."""
    collective: Transfer
    """As `Link.collective`, while its ranks compute."""
    p2p: Transfer
    """As `Link.p2p`, of a message that leaves when its sender has computed."""
    occupancy_s: Seconds
    """By how much sending a message, or receiving one, lengthens the computation of that rank."""
    repeats: PositiveCount
    """Rounds behind each of these."""


class Link(Part):
    """A link between two devices, as point-to-point messages and as collectives see it."""

    p2p: Transfer
    collective: Transfer
    """α and β of `2·log2(r)·α + 2·(r-1)/r·β·L`; bandwidth of one device taking part."""
    provenance: Provenance
    source: Annotated[str, Field(min_length=1, max_length=2_000)]
    fits: Annotated[tuple[LinkFit, ...], FIRST_FAULT, Field(max_length=100)] | None = None
    """What `chimera links` measured; None for links that are known in another way."""
    overlap: Overlap | None = None
    """None where communication and computation do not slow each other down, or nobody has measured it."""


class Node(Part):
    """One machine: equal accelerators and the links between them."""

    accelerator: Name
    devices: PositiveCount
    link: Link | None = None
    """The link inside the node; None for a node of one device."""


class Software(Part):
    """What the software stack of the cluster adds to times and bytes."""

    name: Name
    framework_bytes: Count
    """Memory taken by the framework and its context on each device."""
    compute_factor: Annotated[float, Field(ge=0.001, le=100)] = 1.0
    """Measured layer time inside a training run over the profiled layer time."""
    activation_factors: dict[str, Annotated[float, Field(ge=0.001, le=100)]] = Field(default_factory=dict)
    """Bytes kept in a training run over the counted saved tensors, by model family; 1 where absent."""
    asynchronous_weight_copies: Annotated[float, Field(ge=0, le=100)] | None = None
    """Copies of a stage's weights that schedules without a flush keep beyond their versions; None is 0."""
    collectives: Literal["side_by_side", "one_after_another"] = "side_by_side"
    """Whether two collectives of one rank run at once at full speed (Chimera's two stages), or queue."""
    traffic_factor: Annotated[float, Field(ge=0, le=1_000)] | None = None
    """Time of memory traffic in a run over the data sheet's, in the optimizer step and, where they were not
    timed, in embedding, head and loss; None is `compute_factor`, which is that of all of a block."""
    launch_floor_s: Seconds | None = None
    """The least time of a block's backward, twice that of its forward: what launching their kernels takes."""
    iteration_overhead_s: Seconds | None = None
    """What every iteration takes beyond its operations: data, logging, clearing gradients."""
    operation_overhead_s: Seconds | None = None
    """What a runtime takes for every forward and every backward of a stage beside its layers."""
    message_latency_s: Seconds | None = None
    """Added to the latency of every message between stages."""
    message_factor: Annotated[float, Field(ge=0, le=1_000)] | None = None
    """Time for each byte of a message over the link's; None is 1."""
    collective_factor: Annotated[float, Field(ge=0, le=1_000)] | None = None
    """Time for each byte of a collective over the link's; None is 1."""
    stopped_collective_factor: Annotated[float, Field(ge=0, le=1_000)] | None = None
    """Where ranks stop for collectives, added to `collective_factor` for every doubling of the replicas."""
    all_reduce: Literal["ring", "recursive_doubling"] = "ring"
    """How often an all-reduce over r replicas moves its bytes: 2·(r − 1)/r times, or log2(r) times."""
    ring_step_s: Seconds | None = None
    """Added for each of the 2·(r − 1) steps of a ring of r replicas where ranks stop for their collectives;
    schedules that start them while they compute hide the steps."""
    provenance: Provenance
    source: Annotated[str, Field(min_length=1, max_length=2_000)]


class ClusterProfile(Document):
    """Nodes of equal accelerators and the links between them."""

    kind_name = "cluster"

    name: Name
    description: Annotated[str, Field(max_length=2_000)] = ""
    node: Node
    link: Link
    """The link between two nodes."""
    max_devices: PositiveCount | None = None
    """Devices of the whole cluster; None where it may grow."""
    software: Software
