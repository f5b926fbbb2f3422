"""Do the exports say what the plan says, in the words of each target?"""

import json
import re
import shlex
import subprocess

import pytest

from tests.plans import make_candidate, make_plan, make_prediction
from tuner.exports import FORMATS, export
from tuner.exports.errors import ExportError, NotExpressibleError, NothingChosenError, UnknownFormatError
from tuner.exports.megatron import layout


def read_flags(text: str) -> dict[str, str | None]:
    """Megatron's flags as a shell hands them over."""
    words = shlex.split(text, comments=True)
    flags: dict[str, str | None] = {}
    for word in words:
        if word.startswith("--"):
            assert word not in flags
            flags[word] = None
        else:
            flags[list(flags)[-1]] = word
    return flags


def read_layout(text: str) -> list[int]:
    """Blocks per stage of a --pipeline-model-parallel-layout."""
    return [
        sum(int(times or 1) for times in re.findall(r"t(?:\*(\d+))?", stage)) for stage in text.split("|")
    ]


def test_megatron_flags_give_back_devices_batch_and_layers() -> None:
    """What Megatron-LM computes from its flags is what the plan chose."""
    plan = make_plan(make_candidate())
    flags = read_flags(export(plan, "megatron")[0])
    stages, world = int(flags["--pipeline-model-parallel-size"] or 0), 8
    width = world // stages // int(flags["--tensor-model-parallel-size"] or 0)
    assert (width, stages) == (2, 4)
    assert int(flags["--global-batch-size"] or 0) == 64
    assert int(flags["--global-batch-size"] or 0) // width // int(flags["--micro-batch-size"] or 0) == 8
    assert int(flags["--num-layers"] or 0) == plan.model.blocks
    assert int(flags["--num-layers"] or 0) % stages == 0
    assert "--pipeline-model-parallel-layout" not in flags
    assert {"--bf16", "--accumulate-allreduce-grads-in-fp32"} <= flags.keys()
    assert flags["--seq-length"] == "128"
    assert not [flag for flag in flags if "recompute" in flag or "distributed-optimizer" in flag]


def test_megatron_gets_uneven_stages_as_a_layout() -> None:
    """Every block is in the layout once, the embedding first and the loss last."""
    plan = make_plan(make_candidate(stage_layers=(3, 5, 5, 3)))
    text = read_flags(export(plan, "megatron")[0])["--pipeline-model-parallel-layout"] or ""
    assert read_layout(text) == [3, 5, 5, 3]
    assert text.startswith("E")
    assert text.endswith("L")


@pytest.mark.parametrize("stages", [(1,), (0, 4), (4, 0), (2, 0, 3)])
def test_a_layout_keeps_stages_without_blocks(stages: tuple[int, ...]) -> None:
    """A stage may hold the embedding or the loss alone."""
    assert read_layout(layout(stages)) == list(stages)


@pytest.mark.parametrize(("recompute", "group"), [("layer", "1"), ("stage", "5")])
def test_megatron_recomputes_in_groups_of_a_layer_or_a_stage(recompute: str, group: str) -> None:
    """`uniform` keeps the input of every group of --recompute-num-layers blocks."""
    plan = make_plan(make_candidate(recompute=recompute, stage_layers=(3, 5, 5, 3)))
    flags = read_flags(export(plan, "megatron")[0])
    assert flags["--recompute-granularity"] == "full"
    assert flags["--recompute-method"] == "uniform"
    assert flags["--recompute-num-layers"] == group


@pytest.mark.parametrize(
    ("precision", "gradients", "wanted"),
    [
        ("float32", "float32", set()),
        ("bfloat16", "float32", {"--bf16", "--accumulate-allreduce-grads-in-fp32"}),
        ("bfloat16", "same", {"--bf16", "--grad-reduce-in-bf16"}),
        ("float16", "float32", {"--fp16", "--accumulate-allreduce-grads-in-fp32"}),
        ("float16", "same", {"--fp16"}),
    ],
)
def test_megatron_trains_in_the_planned_precision(precision: str, gradients: str, wanted: set[str]) -> None:
    """Mixed precision and the precision of gradients are flags of their own."""
    plan = make_plan(
        make_candidate(), model={"precision": precision}, request={"gradient_precision": gradients}
    )
    flags = read_flags(export(plan, "megatron")[0])
    assert wanted == flags.keys() & {
        "--bf16", "--fp16", "--accumulate-allreduce-grads-in-fp32", "--grad-reduce-in-bf16",
    }  # fmt: skip


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "adamw"])
def test_megatron_shards_adam_alone(optimizer: str) -> None:
    """Sharding anything else is refused with the remedy, not dropped."""
    plan = make_plan(make_candidate(), request={"optimizer": optimizer, "optimizer_sharding": "replicas"})
    if optimizer.startswith("adam"):
        assert "--use-distributed-optimizer" in read_flags(export(plan, "megatron")[0])
    else:
        with pytest.raises(NotExpressibleError, match="optimizer_sharding=none"):
            export(plan, "megatron")


def test_megatron_gets_the_best_candidate_it_can_run_and_hears_the_cost() -> None:
    """A choice that Megatron-LM has no schedule for is not passed off as one that it has."""
    chosen = make_candidate(schedule="chimera")
    slower = make_candidate(
        width=1, depth=8, stage_layers=(2,) * 8, predicted=make_prediction(iteration_s=2.5)
    )
    text = export(make_plan(chosen, make_candidate(schedule="gpipe"), slower), "megatron")[0]
    assert read_flags(text)["--pipeline-model-parallel-size"] == "8"
    assert "chimera with W=2 and D=4, cannot run on Megatron-LM" in text
    assert "20.0% less" in text


def test_megatron_names_the_remedy_when_no_listed_candidate_runs() -> None:
    """Without a candidate to fall back on the error says how to plan for Megatron-LM."""
    with pytest.raises(NotExpressibleError, match="--runs-on megatron"):
        export(make_plan(make_candidate(schedule="gems")), "megatron")


def test_megatron_needs_no_schedule_without_a_pipeline() -> None:
    """At D=1 every schedule is plain data parallelism."""
    chosen = make_candidate(schedule="gpipe", width=8, depth=1, micro_batches=2, stage_layers=(16,))
    assert read_flags(export(make_plan(chosen), "megatron")[0])["--pipeline-model-parallel-size"] == "1"


@pytest.mark.parametrize("format", ["megatron", "torchtitan", "torchrun", "slurm", "ray"])
def test_a_model_name_cannot_add_lines(format: str) -> None:
    """The name stands in a comment and stays there, line breaks or not."""
    plan = make_plan(make_candidate(), model={"name": "x\n--load /etc\r--save /etc\u2028--rm"})
    lines = export(plan, format)[0].splitlines()
    assert [line[:2] for line in lines if "--rm" in line] == ["# "]


def test_environment_lines_are_what_a_shell_and_a_slurm_prolog_read() -> None:
    """One `export NAME=value` a line, without quotes, and sh sees the plan's values."""
    text, media_type = export(make_plan(make_candidate(), idle_devices=0), "env")
    assert media_type == "text/plain"
    assert all(re.fullmatch(r"export CHIMERA_[A-Z_]+=[A-Za-z0-9_.,-]+", line) for line in text.splitlines())
    script = f'{text}echo "$CHIMERA_WIDTH $CHIMERA_DEPTH $CHIMERA_MINI_BATCH_SIZE $CHIMERA_STAGE_LAYERS"'
    shown = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert shown == "2 4 64 4,4,4,4\n"


@pytest.mark.parametrize("format", ["env", "torchrun", "slurm", "ray"])
@pytest.mark.parametrize("schedule", ["$(reboot)", "a b", "x;y", "`id`", "a\nexport PATH=", "'", ""])
def test_a_shell_never_reads_more_than_a_word(schedule: str, format: str) -> None:
    """Nothing in a plan can run as a command."""
    with pytest.raises(NotExpressibleError):
        export(make_plan(make_candidate(schedule=schedule)), format)


def test_json_holds_the_choice_without_the_alternatives() -> None:
    """The neutral document is small and has the configuration under the plan's own names."""
    text, media_type = export(make_plan(make_candidate()), "json")
    document = json.loads(text)
    assert media_type == "application/json"
    assert document["configuration"]["stage_layers"] == [4, 4, 4, 4]
    assert document["mini_batch_size"] == 64
    assert document["predicted"]["iteration_s"] == 2.0


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_is_exported_when_nothing_fits(name: str) -> None:
    """There is no such thing as flags for a model that does not fit."""
    with pytest.raises(NothingChosenError, match="nothing fits on 8 x h100-80gb"):
        export(make_plan(None), name)


def test_an_unknown_format_names_the_known_ones() -> None:
    """The error lists what can be asked for."""
    with pytest.raises(
        UnknownFormatError, match="megatron, torchtitan, deepspeed, torchrun, slurm, ray, env, json"
    ):
        export(make_plan(make_candidate()), "yaml")
    assert issubclass(UnknownFormatError, ExportError)


@pytest.mark.parametrize("name", FORMATS)
def test_an_export_is_the_same_each_time(name: str) -> None:
    """Equal plans give equal bytes."""
    assert export(make_plan(make_candidate()), name) == export(make_plan(make_candidate()), name)
