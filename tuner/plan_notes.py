"""What is a plan about, and where do its numbers come from? A line each."""

from pydantic import BaseModel, ConfigDict

from profiles.document import Provenance


class PlanPart(BaseModel):
    """A piece of a plan; bytes and seconds stand in the names."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class ModelNote(PlanPart):
    """The model in a line."""

    name: str
    family: str
    parameters: int
    blocks: int
    sequence_length: int
    precision: str
    attention: str
    sample_flops: int


class ClusterNote(PlanPart):
    """The cluster in a line."""

    name: str
    accelerator: str
    devices: int
    devices_per_node: int
    memory_bytes: int
    """Memory of one device, as its driver reports."""
    peak_flops: float


class ProvenanceNote(PlanPart):
    """Where the numbers come from."""

    timings: Provenance
    timings_source: str
    description: str
    links: Provenance
    cluster: str
    software: Provenance
    hashes: dict[str, str]
    """SHA-256 of the model description, timings, cluster and accelerator used, and of the whole profile where
    there was one: the id under which the service keeps it."""
    notes: tuple[str, ...] = ()
    """What was extrapolated or assumed, one sentence each."""
