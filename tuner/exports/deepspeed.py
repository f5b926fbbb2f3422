"""Which configuration and which PipelineModule make DeepSpeed run the choice?

Keys of DeepSpeed 0.19.8 (October 2026): www.deepspeed.ai/docs/config-json, `deepspeed/runtime/config.py` and
`deepspeed/runtime/pipe/module.py`.
"""

import json
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from tuner.exports.frameworks import FRAMEWORKS, preface, runnable
from tuner.plan import Candidate, Chosen, Plan


def write_deepspeed(plan: Plan, chosen: Chosen) -> str:
    """The configuration as JSON; under `chimera`, which DeepSpeed passes over, what it does not hold."""
    candidate = runnable(plan, chosen, "deepspeed")
    document: dict[str, Any] = {
        "chimera": {
            "for": FRAMEWORKS["deepspeed"].release,
            "notes": [*preface(plan, candidate, "deepspeed"), *_notes(plan, candidate)],
            "pipeline_module": _pipeline_module(candidate),
        },
        # Per data-parallel rank B samples, N times: train_batch_size = B·N·W.
        "train_batch_size": candidate.width * candidate.micro_batch_size * candidate.micro_batches,
        "train_micro_batch_size_per_gpu": candidate.micro_batch_size,
        "gradient_accumulation_steps": candidate.micro_batches,
        "zero_optimization": {"stage": 1 if plan.request["optimizer_sharding"] == "replicas" else 0},
        **_precision(plan),
    }
    if plan.request["optimizer_sharding"] == "replicas" and plan.request["optimizer"] in {"sgd", "momentum"}:
        document["zero_allow_untested_optimizer"] = True
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _notes(plan: Plan, candidate: Candidate) -> Iterator[str]:
    yield (
        f"Start {candidate.width * candidate.depth:,} ranks: W={candidate.width} follows from their number. "
        f"Give deepspeed.initialize the module below and an optimizer ({plan.request['optimizer']} was "
        "planned); `layers` is the list [embedding, every block, head], the loss is its loss_fn."
    )
    if candidate.depth > 1:
        yield "Where the head shares the embedding's weights, give both as TiedLayerSpec of one key."
    if len(set(candidate.stage_layers)) == 1:
        yield "Block is the class of a block: name yours."
    if plan.model.precision == "float16" and plan.request["gradient_precision"] == "float32":
        yield "DeepSpeed keeps gradients of fp16 in fp16: they need less memory than was planned."


def _precision(plan: Plan) -> dict[str, Any]:
    same = plan.request["gradient_precision"] == "same"
    match plan.model.precision:
        case "bfloat16":
            kept = {"data_types": {"grad_accum_dtype": "bf16" if same else "fp32"}}
            return {"bf16": {"enabled": True}, **kept}
        case "float16":
            return {"fp16": {"enabled": True}}
        case _:
            return {}


def _pipeline_module(candidate: Candidate) -> str:
    """The call that cuts the layers; where stages differ, a subclass that is told where."""
    stages = f"num_stages={candidate.depth}"
    # The interval counts layers of the list; one that covers a stage keeps its input alone.
    interval = {"none": 0, "layer": 1, "stage": max(candidate.stage_layers) + 2}[candidate.recompute]
    again = f"activation_checkpoint_interval={interval}"
    if len(set(candidate.stage_layers)) == 1:
        return f'PipelineModule({stages}, layers=layers, partition_method="type:Block", {again})'
    parts = [0, *accumulate(candidate.stage_layers)]
    # The embedding stands before the first block, the head after the last.
    parts = [0, *(end + 1 for end in parts[1:-1]), parts[-1] + 2]
    return (
        "class Cut(PipelineModule):\n"
        "    def _partition_layers(self, method):\n"
        f"        self.parts = {parts}\n"
        "        self._set_bounds(*self.parts[self.stage_id : self.stage_id + 2])\n"
        f"\nCut({stages}, layers=layers, {again})"
    )
