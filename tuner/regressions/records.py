"""What does a baseline keep of each model? Its profile, the question asked, and what the plan said."""

import hashlib
from typing import Annotated, Self

from pydantic import Field, model_validator

from profiles.document import Count, Document, Name, Part, PositiveSeconds, canonical_json
from profiles.timings import Profile

Fingerprint = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Layout(Part):
    """The configuration that a plan chose."""

    schedule: Name
    width: Count
    depth: Count
    micro_batch_size: Count
    micro_batches: Count
    recompute: Name
    scaling: Name
    pipe_pairs: Count
    chunks: Count

    def __str__(self) -> str:
        recompute = "" if self.recompute == "none" else f", recompute {self.recompute}"
        return f"{self.schedule} W={self.width} D={self.depth} B={self.micro_batch_size}{recompute}"


class Outcome(Part):
    """What the plan of a model said."""

    chosen: Layout | None = None
    """None where nothing fits."""
    throughput_samples_per_s: PositiveSeconds | None = None
    iteration_s: PositiveSeconds | None = None
    peak_memory_bytes: Count | None = None
    """Of the fullest device."""
    capacity_bytes: Count
    """What a device has."""


class ModelRecord(Part):
    """A model as it was accepted, or as it is now."""

    name: Name
    fingerprint: Fingerprint
    """Of all that its profile depends on: description or sources, sizes, device and software."""
    question: dict[Name, str]
    """What was asked of the plan; another question has another answer."""
    profile: Profile
    outcome: Outcome


class Baseline(Document):
    """The records of all models of a manifest, with a hash of them: it is written whole, never edited."""

    kind_name = "baseline"

    models: Annotated[tuple[ModelRecord, ...], Field(max_length=1000)]
    content_sha256: Fingerprint

    @model_validator(mode="after")
    def _unchanged(self) -> Self:
        names = [record.name for record in self.models]
        if len(set(names)) != len(names):
            raise ValueError("a model is recorded twice: write the baseline anew with `chimera ci --accept`")
        content = _content(self.models)
        if content != self.content_sha256:
            raise ValueError(
                f"its content has the hash {content[:12]}..., not {self.content_sha256[:12]}...: it was "
                "edited or merged by hand. Restore it, or write it anew with `chimera ci --accept`"
            )
        return self

    def find(self, name: str) -> ModelRecord | None:
        """The record of a model."""
        return next((record for record in self.models if record.name == name), None)


def write_baseline(records: tuple[ModelRecord, ...]) -> Baseline:
    """The baseline of these records."""
    return Baseline(models=records, content_sha256=_content(records))


def fingerprint_of(parts: object) -> str:
    """SHA-256 of the canonical JSON of these parts."""
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()


def _content(records: tuple[ModelRecord, ...]) -> str:
    return fingerprint_of([record.model_dump(mode="json", exclude_none=True) for record in records])
