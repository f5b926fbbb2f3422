"""Do frameworks get back from their options what was planned, and only options that they have?"""

import ast
import json
import re
import shlex
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from profiles import library
from tests.plans import make_candidate, make_plan, make_prediction
from tests.tuner.exports.test_exports import read_flags, read_layout
from tuner.exports import export
from tuner.exports.errors import NotExpressibleError
from tuner.exports.frameworks import FRAMEWORKS, substitution
from tuner.plan import Candidate, Plan
from tuner.planning import answer
from tuner.request import read_request
from tuner.schedules.generators import generate
from tuner.schedules.lowering import lower
from tuner.torch_csv import torch_csv

OPTIONS = Path(__file__).with_name("options")
REQUESTS: dict[str, dict[str, Any]] = {
    "gpt2-64": {"model": "gpt2-64", "cluster": "piz-daint", "devices": 512, "mini_batch_size": 512},
    "llama-2-7b": {
        "model": "llama-2-7b", "cluster": "dgx-a100", "devices": 64, "mini_batch_size": 512, "depth": 8,
        "partition": "balanced", "optimizer_sharding": "replicas",
    },
    "uneven": {
        "model": "llama-2-7b", "cluster": "dgx-a100", "devices": 24, "mini_batch_size": 96, "depth": 6,
    },
}  # fmt: skip


@cache
def plan_of(name: str, schedules: str = "dapple") -> Plan:
    """A real plan."""
    return answer(read_request({**REQUESTS[name], "schedules": schedules}), library)


def chosen_of(plan: Plan) -> Candidate:
    """What it chose."""
    assert plan.chosen is not None
    return plan.chosen


def recorded(name: str) -> dict[str, Any]:
    """The options that a release documents, by name."""
    found: dict[str, Any] = json.loads((OPTIONS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def check_value(known: Any, values: list[str], *, option: str) -> None:
    """Fail unless the option takes these values."""
    if known == "flag":
        assert not values, option
    elif known == "str*":
        assert values, option
    else:
        (value,) = values
        assert value in known if isinstance(known, list) else known == "str" or int(value) >= 0, option


def read_options(text: str) -> dict[str, list[str]]:
    """Options with their values, as a shell hands them over; `name:choice` stands for a choice."""
    options: dict[str, list[str]] = {}
    last: list[str] = []
    for word in shlex.split(text, comments=True):
        if word.startswith("--"):
            assert word not in options
            last = options[word] = []
        elif word.startswith("activation_checkpoint:"):
            last = options["activation_checkpoint"] = [word.partition(":")[2]]
        else:
            last.append(word)
    return options


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("framework", ["megatron", "torchtitan"])
def test_only_documented_options_are_written(framework: str, name: str) -> None:
    """Each option is one of its release, with a value that it takes."""
    known = recorded(framework)["options"]
    for option, values in read_options(export(plan_of(name), framework)[0]).items():
        check_value(known[option], values, option=option)


@pytest.mark.parametrize("name", REQUESTS)
def test_megatron_computes_the_plan_from_its_flags(name: str) -> None:
    """Devices, batch and layers; where they do not divide evenly, every stage by the layout."""
    plan = plan_of(name)
    chosen, flags = chosen_of(plan), read_flags(export(plan, "megatron")[0])
    numbers = {flag: int(value) for flag, value in flags.items() if value and value.isdigit()}
    depth = numbers["--pipeline-model-parallel-size"]
    width = (plan.cluster.devices - plan.idle_devices) // depth // numbers["--tensor-model-parallel-size"]
    per_rank = numbers["--global-batch-size"] // width
    assert (width, depth) == (chosen.width, chosen.depth)
    assert numbers["--global-batch-size"] == plan.request["mini_batch_size"]
    assert divmod(per_rank, numbers["--micro-batch-size"]) == (chosen.micro_batches, 0)
    layout = flags.get("--pipeline-model-parallel-layout")
    even = [numbers["--num-layers"] // depth] * depth
    assert (read_layout(layout) if layout else even) == list(chosen.stage_layers)
    assert sum(chosen.stage_layers) == numbers["--num-layers"] == plan.model.blocks
    assert bool(layout) == (len(set(chosen.stage_layers)) > 1)


@pytest.mark.parametrize("name", REQUESTS)
def test_torchtitan_computes_the_plan_from_its_options(name: str) -> None:
    """Degrees multiply to the devices, sizes to the batch, and the modules of each stage are the plan's."""
    plan = plan_of(name)
    chosen, options = chosen_of(plan), read_options(export(plan, "torchtitan")[0])
    number = {option: int(values[0]) for option, values in options.items() if values[0].isdigit()}
    replicas, shards = (
        number[f"--parallelism.data_parallel_{kind}_degree"] for kind in ("replicate", "shard")
    )
    assert (replicas * shards, number["--parallelism.pipeline_parallel_degree"]) == (
        chosen.width,
        chosen.depth,
    )
    assert min(replicas, shards) == 1
    assert (shards > 1) == (plan.request["optimizer_sharding"] == "replicas")
    local, micro = (
        number["--training.local_batch_size"],
        number["--parallelism.pipeline_parallel_microbatch_size"],
    )
    assert divmod(local, micro) == (chosen.micro_batches, 0)
    assert local * chosen.width == number["--training.global_batch_size"] == plan.request["mini_batch_size"]
    parts = options["--parallelism.module_fqns_per_model_part"]
    assert [part.count("layers.") for part in parts] == list(chosen.stage_layers)
    assert ",".join(parts).split(",") == [
        "tok_embeddings", *(f"layers.{block}" for block in range(plan.model.blocks)), "norm", "lm_head",
    ]  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_deepspeed_computes_the_plan_from_its_configuration(name: str) -> None:
    """Batch, sharding and stages; the class that cuts unevenly cuts where the plan does."""
    plan = plan_of(name)
    chosen, document = chosen_of(plan), json.loads(export(plan, "deepspeed")[0])
    told, known = document.pop("chimera"), recorded("deepspeed")
    assert document.keys() <= known["options"].keys()
    assert all(
        set(value) <= known["options"][key].keys() for key, value in document.items() if type(value) is dict
    )
    micro, steps = document["train_micro_batch_size_per_gpu"], document["gradient_accumulation_steps"]
    assert (micro, steps) == (chosen.micro_batch_size, chosen.micro_batches)
    assert document["train_batch_size"] == micro * steps * chosen.width == plan.request["mini_batch_size"]
    assert document["zero_optimization"]["stage"] == (plan.request["optimizer_sharding"] == "replicas")
    tree = ast.parse(told["pipeline_module"])
    call = next(node for node in tree.body if isinstance(node, ast.Expr)).value
    assert isinstance(call, ast.Call)
    given = {str(word.arg): ast.unparse(word.value) for word in call.keywords}
    assert given.keys() <= set(known["pipeline_module"])
    assert int(given["num_stages"]) == chosen.depth
    if cut := re.search(r"parts = (\[.*\])", told["pipeline_module"]):
        parts = json.loads(cut[1])
        assert [end - start for start, end in pairwise(parts)] == [
            layers + (place in {0, chosen.depth - 1}) for place, layers in enumerate(chosen.stage_layers)
        ]
    assert bool(cut) == (len(set(chosen.stage_layers)) > 1)


def test_what_no_framework_runs_is_replaced_and_priced() -> None:
    """Chimera: each framework gets the best of the same search that it runs, and hears what that costs."""
    plan = plan_of("gpt2-64", "chimera,dapple,gpipe,interleaved")
    chosen = chosen_of(plan)
    assert chosen.schedule == "chimera"
    assert plan.best_by_framework.keys() == FRAMEWORKS.keys()
    for name, candidate in plan.best_by_framework.items():
        assert FRAMEWORKS[name].runs(candidate)
        text, said = export(plan, name)[0], substitution(plan, name) or ""
        lost = 1 - candidate.predicted.throughput_samples_per_s / chosen.predicted.throughput_samples_per_s
        assert f"({lost:.1%} less)" in said
        assert said in text
        assert f"--runs-on {name}" in said
        assert candidate.predicted.simulated


def test_nothing_is_replaced_where_the_choice_runs() -> None:
    """A plan made for a framework is exported to it as it is."""
    plan = plan_of("llama-2-7b")
    assert plan.best_by_framework == {}
    assert [substitution(plan, name) for name in (*FRAMEWORKS, "env")] == [None] * 4


def test_torchtitan_reads_what_it_has_no_name_for_from_a_csv() -> None:
    """The comment's command writes the order that torch's runtime loads."""
    chosen = make_candidate(schedule="zb_h1", stage_layers=(3, 5, 5, 3))
    text = export(make_plan(chosen), "torchtitan")[0]
    options = read_options(text)
    assert options["--parallelism.pipeline_parallel_schedule"] == ["PipelineScheduleMulti"]
    command = re.search(r"chimera (simulate .*)", text)
    assert command
    assert shlex.split(command[1]) == [
        "simulate", "--schedule", "zb_h1", "--depth", "4", "--micro-batches", "8", "--format", "torch-csv",
        "--trace", *options["--parallelism.pipeline_parallel_schedule_csv"],
    ]  # fmt: skip
    assert torch_csv(lower(generate("zb_h1", depth=4, micro_batches=8))).count("\n") == 4


@pytest.mark.parametrize(
    ("format", "request_", "model", "remedy"),
    [
        ("torchtitan", {"optimizer": "sgd"}, {}, "optimizer=adam"),
        ("torchtitan", {}, {"precision": "float16"}, "precision=bfloat16"),
        ("torchtitan", {"gradient_precision": "same"}, {}, "gradient_precision=float32"),
    ],
)
def test_training_that_a_framework_lacks_is_refused(
    format: str, request_: dict[str, str], model: dict[str, str], remedy: str
) -> None:
    """With the option to change, and nothing is dropped in silence."""
    with pytest.raises(NotExpressibleError, match=remedy):
        export(make_plan(make_candidate(), request=request_, model=model), format)


def test_a_stored_plan_without_the_best_by_framework_finds_it_among_its_candidates() -> None:
    """Plans stored by earlier releases can be exported too."""
    slower = make_candidate(predicted=make_prediction(iteration_s=4.0))
    plan = make_plan(make_candidate(schedule="chimera"), slower)
    assert not plan.best_by_framework
    for name in FRAMEWORKS:
        assert "(50.0% less)" in export(plan, name)[0]
