"""What does a plan look like? A small one for tests of whoever prints, stores or exports plans."""

from typing import Any

from tuner.inputs import Library
from tuner.plan import (
    Breakdown,
    Candidate,
    Chosen,
    ClusterNote,
    ModelNote,
    Plan,
    Prediction,
    ProvenanceNote,
    RankMemory,
)
from tuner.planning import answer
from tuner.request import PlanRequest

_MADE: dict[tuple[str, ...], Plan] = {}


def answer_once(request: PlanRequest, library: Library, **known: Any) -> Plan:
    """The answer, made once for equal questions: that it is the same again is for the tuner's own tests."""
    documents = (known.get("profile"), known.get("calibration"))
    prints = ["" if document is None else document.fingerprint() for document in documents]
    key = (request.model_dump_json(), *prints, repr(known.get("trials", ())))
    if key not in _MADE:
        _MADE[key] = answer(request, library, **known)
    return _MADE[key]


REQUEST = {
    "model": "tiny-gpt",
    "optimizer": "adam",
    "optimizer_sharding": "none",
    "gradient_precision": "float32",
    "runs_on": "any",
    "search": "greedy",
    "top": 20,
}


def make_prediction(*, iteration_s: float = 2.0, samples: int = 64) -> Prediction:
    """A prediction whose parts sum to `iteration_s`."""
    return Prediction(
        iteration_s=iteration_s,
        throughput_samples_per_s=samples / iteration_s,
        tokens_per_s=samples * 128 / iteration_s,
        mfu=0.4,
        bubble_ratio=0.1,
        breakdown=Breakdown(
            compute_s=0.8 * iteration_s,
            bubble_s=0.1 * iteration_s,
            p2p_s=0.04 * iteration_s,
            all_reduce_s=0.06 * iteration_s,
        ),
    )


def make_candidate(**changes: Any) -> Candidate:
    """1F1B on two groups of four ranks, B=4."""
    values: dict[str, Any] = {
        "schedule": "dapple",
        "width": 2,
        "depth": 4,
        "micro_batch_size": 4,
        "micro_batches": 8,
        "recompute": "none",
        "scaling": "direct",
        "pipe_pairs": 1,
        "chunks": 1,
        "stage_layers": (4, 4, 4, 4),
        "predicted": make_prediction(),
        "peak_memory_bytes": 12_000_000_000,
    }
    return Candidate(**(values | changes))


def make_memory(rank: int = 0, *, weights_bytes: int = 8_000_000_000) -> RankMemory:
    """One rank's memory: weights, activations and reserve."""
    return RankMemory(
        rank=rank,
        weights_bytes=weights_bytes,
        gradients_bytes=0,
        optimizer_bytes=0,
        activations_bytes=3_000_000_000,
        recompute_bytes=0,
        loss_bytes=0,
        transient_bytes=0,
        communication_bytes=0,
        framework_bytes=0,
        reserve_bytes=1_000_000_000,
        total_bytes=weights_bytes + 4_000_000_000,
    )


def make_plan(chosen: Candidate | None, *others: Candidate, **changes: Any) -> Plan:
    """A plan that chose `chosen`, with `others` as runners-up."""
    request = REQUEST | changes.pop("request", {})
    model = {
        "name": "tiny-gpt",
        "family": "gpt2",
        "parameters": 1_000_000,
        "blocks": 16,
        "sequence_length": 128,
    }
    model |= {"precision": "bfloat16", "attention": "flash", "sample_flops": 1_000} | changes.pop("model", {})
    values: dict[str, Any] = {
        "request": request,
        "model": ModelNote(**model),
        "cluster": ClusterNote(
            name="dgx-h100", accelerator="h100-80gb", devices=8, devices_per_node=8,
            memory_bytes=85_500_000_000, peak_flops=1e15,
        ),
        "chosen": _chosen(chosen) if chosen else None,
        "candidates": tuple([_chosen(chosen), *others] if chosen else others),
        "candidates_considered": 1 + len(others),
        "rejected": (),
        "layouts": (),
        "smallest_change": None,
        "greedy_regret": 0.0,
        "greedy_best": None,
        "target_cost": None,
        "idle_devices": 0,
        "why": None,
        "provenance": ProvenanceNote(
            timings="estimated", timings_source="roofline", description="arithmetic", links="estimated",
            cluster="dgx-h100", software="estimated", hashes={"model": "0" * 64},
        ),
    }  # fmt: skip
    return Plan(**(values | changes))


def _chosen(candidate: Candidate) -> Chosen:
    memory = tuple(make_memory(rank) for rank in range(candidate.depth))
    return Chosen(**dict(candidate), memory=memory)
