"""What does the model say of a configuration that was measured?"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from profiles.cluster import ClusterProfile
from profiles.errors import DocumentError
from profiles.measurement import Measurement, ModelShape
from profiles.timings import Profile
from tuner.errors import RequestError, UnsupportedModelError, UnsupportedOptionError
from tuner.evaluated import Evaluated, Variant
from tuner.evaluation import Evaluator
from tuner.inputs import Library, PlanInputs, gather
from tuner.rehearsal import Rehearsal
from tuner.request import read_request
from tuner.schedules import Scheme, find_scheme
from tuner.space import Layout

UNPREDICTABLE = (RequestError, UnsupportedModelError, UnsupportedOptionError, DocumentError)
"""What `replay` raises for a measurement of which nothing can be said, with the reason."""
MOST_OPERATIONS = 1_000_000
"""Forwards and backwards of the longest measurement that is simulated: those of some seconds."""


@dataclass(frozen=True)
class Replayed:
    """A measured configuration, evaluated at its one micro-batch size."""

    evaluator: Evaluator
    evaluated: Evaluated

    @property
    def closed_form_s(self) -> float:
        """Time of an iteration by equation 1."""
        return float(self.evaluated.iteration_s[0])

    @property
    def simulated_s(self) -> float:
        """Time of an iteration by simulation: what a plan says."""
        return Rehearsal(self.evaluator).rehearse(self.evaluated, 0).iteration_s


def replay(
    measurement: Measurement,
    library: Library,
    *,
    cluster: ClusterProfile | None = None,
    profiles: Sequence[Profile] = (),
) -> Replayed:
    """The measured configuration as the model sees it; `cluster` replaces the named one.

    A profile of `profiles` is used where its description has the name of the measured model. Raises
    RequestError where the schedule has no closed form for it, or the model's family is not known.
    """
    inputs = gather_measured(measurement, library, profiles=profiles)
    if cluster is not None:
        inputs = replace(inputs, cluster=cluster)
    ran = measurement.configuration
    scheme = find_scheme(ran.schedule)
    layout = Layout(ran.width, ran.depth)
    evaluator = Evaluator(inputs)
    _check(measurement, scheme, blocks=len(inputs.description.blocks))
    variant = Variant(scheme, layout, ran.scaling, ran.pipe_pairs, ran.recompute)
    evaluated = evaluator.evaluate(variant, np.array([ran.micro_batch_size]))
    if evaluated is None:
        raise RequestError(
            "the measured configuration cannot be predicted: halving needs an even micro-batch size"
        )
    return Replayed(evaluator, evaluated)


def _check(measurement: Measurement, scheme: Scheme, *, blocks: int) -> None:
    """Refuse what no schedule of that name can have run."""
    ran = measurement.configuration
    each = ran.width * ran.micro_batch_size
    operations = 2 * scheme.chunks * ran.depth * (ran.mini_batch_size // each)
    if ran.width * ran.depth > measurement.devices:
        reason: str | None = (
            f"W·D = {ran.width * ran.depth:,} ranks do not fit on the {measurement.devices:,} devices named"
        )
    elif operations > MOST_OPERATIONS:
        reason = (
            f"it has {operations:,} forwards and backwards, and {MOST_OPERATIONS:,} at most are simulated"
        )
    elif ran.mini_batch_size % each:
        reason = f"the mini-batch {ran.mini_batch_size} does not divide by W·B = {each}"
    elif scheme.chunks * ran.depth > blocks:
        reason = f"D = {ran.depth} is deeper than the model's {blocks} blocks allow"
    else:
        micro_batches = ran.mini_batch_size // each
        reason = scheme.illegal_depth(ran.depth) or scheme.illegal(
            ran.depth, micro_batches, scaling=ran.scaling, pipe_pairs=ran.pipe_pairs
        )
    if reason:
        raise RequestError(f"the measured configuration cannot be predicted: {reason}")


def model_name(measurement: Measurement) -> str:
    """What identifies the measured model: its name, or its sizes."""
    model = measurement.model
    if isinstance(model, str):
        return model
    return (
        f"{model.family} {model.layers} x {model.hidden_size}, {model.heads} heads, "
        f"{model.sequence_length} tokens, vocabulary {model.vocabulary}"
    )


def gather_measured(
    measurement: Measurement, library: Library, *, profiles: Sequence[Profile] = ()
) -> PlanInputs:
    """What the prediction of a measurement is computed from.

    A model given by its sizes is cut into equal numbers of blocks where they divide, as its frameworks do,
    and writes its scores to memory unless its attention is told.
    """
    model, ran = measurement.model, measurement.configuration
    profile = next((each for each in profiles if each.description.name == model), None)
    asked: dict[str, Any] = {
        "model": model,
        "cluster": measurement.cluster,
        "devices": measurement.devices,
        "mini_batch_size": ran.mini_batch_size,
        "sequence_length": measurement.sequence_length,
        "precision": measurement.precision,
        "attention": measurement.attention,
    }
    if isinstance(model, ModelShape):
        asked["attention"] = measurement.attention or "eager"
        asked["model"] = {"config": _config(model), "name": model_name(measurement)}
        asked["partition"] = "balanced" if model.layers % ran.depth else "even"
    elif profile is not None:
        asked["model"] = {"profile": profile.fingerprint()}
    return gather(read_request(asked), library, profile=profile)


def _config(shape: ModelShape) -> dict[str, Any]:
    """The configuration of a model with these sizes and what its family has by default."""
    if shape.family in {"gpt", "gpt2"}:
        return {
            "model_type": "gpt2",
            "n_embd": shape.hidden_size,
            "n_layer": shape.layers,
            "n_head": shape.heads,
            "n_positions": shape.sequence_length,
            "vocab_size": shape.vocabulary,
        }
    if shape.family == "bert":
        return {
            "model_type": "bert",
            "hidden_size": shape.hidden_size,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "intermediate_size": 4 * shape.hidden_size,
            "max_position_embeddings": shape.sequence_length,
            "vocab_size": shape.vocabulary,
        }
    raise RequestError(
        f"a model of family {shape.family!r} cannot be made from its sizes: use gpt, gpt2 or bert, the name "
        "of a preset, or a profile with that name"
    )
