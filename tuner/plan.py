"""What does a plan say? It is printed, stored, drawn and exported, and holds no clock, id or host."""

from typing import Any, Literal

from profiles.document import canonical_json
from tuner.display import plan_html

# Plans are read and written through this module, so their notes are found here too.
from tuner.plan_notes import ClusterNote as ClusterNote  # noqa: PLC0414
from tuner.plan_notes import ModelNote as ModelNote  # noqa: PLC0414
from tuner.plan_notes import PlanPart as PlanPart  # noqa: PLC0414
from tuner.plan_notes import ProvenanceNote as ProvenanceNote  # noqa: PLC0414


class Breakdown(PlanPart):
    """The iteration by what it is spent on; the parts sum to `iteration_s`."""

    compute_s: float
    """Work of the busiest rank, with recomputation and the optimizer step."""
    bubble_s: float
    """Time the busiest rank waits for the pipeline to fill and drain."""
    p2p_s: float
    """Messages between stages on the critical path."""
    all_reduce_s: float
    """Gradient synchronisation that no bubble hides."""


class ErrorBar(PlanPart):
    """Where the measured iteration will lie, learnt from measurements."""

    low_s: float
    high_s: float
    coverage: float


class Prediction(PlanPart):
    """What the model says of one configuration."""

    iteration_s: float
    """Simulated where `simulated`, else by equation 1."""
    closed_form_s: float | None = None
    """By equation 1."""
    simulated: bool = False
    """Whether the schedule was simulated under these costs; the best candidates are."""
    throughput_samples_per_s: float
    tokens_per_s: float
    mfu: float
    """Useful FLOPs (without recomputation) over the peak of the devices used."""
    bubble_ratio: float
    """1 − Σ busy / (D·iteration) over the ranks; waiting for messages and collectives is idle too."""
    breakdown: Breakdown
    error_bar: ErrorBar | None = None
    """None until measurements exist."""


class RankMemory(PlanPart):
    """Peak memory of one rank in named parts, which sum to `total_bytes`."""

    rank: int
    weights_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    activations_bytes: int
    recompute_bytes: int
    loss_bytes: int
    transient_bytes: int
    communication_bytes: int
    framework_bytes: int
    reserve_bytes: int
    total_bytes: int


class ConfigurationDocument(PlanPart):
    """A configuration, or the part of it that was decided when it was rejected."""

    schedule: str | None = None
    width: int
    depth: int
    micro_batch_size: int | None = None
    micro_batches: int | None = None
    recompute: Literal["none", "stage", "layer"] | None = None
    scaling: Literal["direct", "doubling", "halving"] | None = None
    pipe_pairs: int | None = None
    chunks: int | None = None


class Candidate(PlanPart):
    """A configuration that fits, with its prediction."""

    schedule: str
    width: int
    depth: int
    micro_batch_size: int
    micro_batches: int
    recompute: Literal["none", "stage", "layer"]
    scaling: Literal["direct", "doubling", "halving"]
    pipe_pairs: int
    chunks: int
    stage_layers: tuple[int, ...]
    """Blocks per stage, in stage order; they sum to the model's number of blocks."""
    predicted: Prediction
    peak_memory_bytes: int
    """`total_bytes` of the fullest rank."""
    compression: str = "none"
    """Of the gradients that replicas exchange; none unless the request allows another."""


class Chosen(Candidate):
    """The chosen configuration, with the memory of every rank."""

    memory: tuple[RankMemory, ...]


class Rejected(PlanPart):
    """A configuration that was not taken, and why, in numbers."""

    configuration: ConfigurationDocument
    reason: str
    kind: Literal["memory", "batch", "layout", "target", "domain"]
    """`memory` does not fit, `batch` does not divide, `layout` is not legal, `target` is not run by
    `runs_on`, `domain` cannot run that way."""


class LayoutSchedule(PlanPart):
    """The best that one schedule gives on one (W, D)."""

    schedule: str
    micro_batch_size: int
    recompute: Literal["none", "stage", "layer"]
    throughput_samples_per_s: float
    peak_memory_bytes: int


class Layout(PlanPart):
    """The best that one (W, D) gives: a cell of the throughput map."""

    width: int
    depth: int
    schedule: str | None = None
    micro_batch_size: int | None = None
    recompute: str | None = None
    throughput_samples_per_s: float | None = None
    peak_memory_bytes: int | None = None
    reason: str | None = None
    """Why nothing fits here; None where something does."""
    schedules: tuple[LayoutSchedule, ...] = ()
    """Every schedule that fits here at its best, fastest first."""


class SmallestChange(PlanPart):
    """The least that must change for the model to fit."""

    change: str
    configuration: ConfigurationDocument
    memory: RankMemory
    """Memory of the fullest rank after the change."""


class WhyNot(PlanPart):
    """The best candidate under the constraints asked about, against the chosen one."""

    constraints: dict[str, Any]
    best: Candidate | None
    slower_by: float | None
    """Iteration time over the chosen one's, minus 1."""
    difference_s: Breakdown | None
    """Part by part, `best` minus `chosen`."""
    reason: str


class CompressionOption(PlanPart):
    """The best plan with one compression of gradients."""

    compression: str
    collective: Literal["all_reduce", "all_gather"]
    volume_bytes: int | None
    """What the rank that sends most gives to collectives in an iteration; None where nothing fits."""
    schedule: str | None
    width: int | None
    depth: int | None
    iteration_s: float | None
    throughput_samples_per_s: float | None
    all_reduce_s: float | None
    """What of compressing and of collectives no bubble hides."""
    risk: str
    """What it may do to convergence."""
    reason: str | None = None
    """Why it is out of the question; None where something fits."""


class CompressionNote(PlanPart):
    """What the compressions that the request allows would change."""

    chosen: str
    changes_layout: bool
    """Whether the best width, depth or schedule is another one than without compression."""
    speed_up: float | None
    """Throughput over that of the best without compression."""
    options: tuple[CompressionOption, ...]
    """None first, then those allowed, as the request has them."""
    summary: str


class Plan(PlanPart):
    """The answer: what to run, what else would, what would not and why."""

    schema_version: Literal[1] = 1
    request: dict[str, Any]
    """The request with its defaults resolved."""
    model: ModelNote
    cluster: ClusterNote
    chosen: Chosen | None
    candidates: tuple[Candidate, ...]
    """The best `top` candidates, fastest first."""
    candidates_considered: int
    rejected: tuple[Rejected, ...]
    layouts: tuple[Layout, ...]
    smallest_change: SmallestChange | None
    greedy_regret: float | None
    """Throughput of the best candidate over the chosen one's, minus 1."""
    greedy_best: Candidate | None
    """The best candidate of the exhaustive search, None when it is the chosen one."""
    greedy_choice: Candidate | None = None
    """Of an exhaustive search: what the greedy one chooses, None where nothing is, or trials chose."""
    target_cost: float | None
    """What `runs_on` costs: throughput of the best over all targets over the chosen one's, minus 1."""
    best_by_framework: dict[str, Candidate] = {}  # noqa: RUF012  # pydantic copies it
    """The best candidate that a framework runs, by the same search, for each that cannot run the choice."""
    idle_devices: int
    why: WhyNot | None
    provenance: ProvenanceNote
    compression: CompressionNote | None = None
    """None where the request allows no compression."""
    sent_gradient_bytes: int = 0
    """What the rank that sends most gives to collectives of gradients in an iteration of the choice."""

    def to_json(self) -> str:
        """Canonical text: the same request gives the same bytes."""
        return canonical_json(self.model_dump(mode="json"))

    def _repr_html_(self) -> str:
        return plan_html(self)
