"""Is a Megatron-LM run read as what it is, and compared with what the same devices can do?"""

from typing import Any

import pytest

from profiles import library
from tests.tuner.exports.test_frameworks import REQUESTS, chosen_of, plan_of
from tuner.errors import RequestError
from tuner.exports import export
from tuner.exports.megatron import layout
from tuner.imports.comparison import Comparison, compare
from tuner.imports.errors import ImportedError
from tuner.imports.megatron_flags import read_flags
from tuner.imports.megatron_model import model_config
from tuner.imports.megatron_run import read_run
from tuner.imports.megatron_stages import read_layout, read_stages

LLAMA = (
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 11008 --num-attention-heads 32 --swiglu "
    "--seq-length 4096 --max-position-embeddings 4096 --untie-embeddings-and-output-weights "
    "--vocab-size 32000 "
)
RUN = LLAMA + "--pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 512 --bf16 "
SCRIPT = """#!/bin/bash
export TP=4   # within a node
PP="2"
PP=${PP:-8}
MICRO=${MICRO:-2}
GPT_ARGS=(
    --num-layers 32 --hidden-size 4096   # the model
    --tensor_model_parallel_size=${TP} \\
    --pipeline-model-parallel-size $PP
)
torchrun --nproc_per_node 8 --nnodes ${NODES:-4} pretrain_gpt.py ${GPT_ARGS[@]} \\
    --micro-batch-size $MICRO --global-batch-size 256 --fp16 --use-distributed-optimizer \\
    --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
"""


def compared(text: str, **asked: Any) -> Comparison:
    """A comparison on H100s."""
    return compare(read_flags(text), {"cluster": "dgx-h100", "devices": 64, **asked}, library)


def test_a_script_is_read_as_the_shell_would() -> None:
    """Arrays, variables with and without defaults, comments, both spellings of names."""
    run = read_run(read_flags(SCRIPT))
    assert (run.tensor_parallel, run.depth, run.micro_batch_size, run.mini_batch_size) == (4, 2, 2, 256)
    assert (run.precision, run.recompute, run.optimizer_sharding) == ("float16", "layer", "replicas")
    assert (run.devices, run.schedule) == (32, "dapple")


@pytest.mark.parametrize("name", REQUESTS)
def test_what_is_exported_is_read_back(name: str) -> None:
    """Every size, the layout, the precision and the optimizer of a plan come back from its flags."""
    plan = plan_of(name)
    chosen, run = chosen_of(plan), read_run(read_flags(export(plan, "megatron")[0]))
    assert (run.depth, run.chunks, run.micro_batch_size) == (
        chosen.depth,
        chosen.chunks,
        chosen.micro_batch_size,
    )
    assert run.mini_batch_size == plan.request["mini_batch_size"]
    assert run.stage_layers in {None, chosen.stage_layers}
    assert (run.stage_layers is None) == (len(set(chosen.stage_layers)) == 1)
    assert (run.precision, run.attention) == (plan.model.precision, plan.model.attention)
    assert (run.recompute, run.schedule) == (chosen.recompute, chosen.schedule)
    assert (run.optimizer, run.optimizer_sharding) == ("adam", plan.request["optimizer_sharding"])


@pytest.mark.parametrize("stages", [(1,), (0, 4), (3, 5, 5, 3), (2, 0, 3)])
def test_layouts_are_read_as_they_are_written(stages: tuple[int, ...]) -> None:
    """Also as people write them, with groups and commas."""
    assert read_layout(layout(stages)) == stages
    assert read_layout("Et*3|(tt|)*2,t|L") == (3, 2, 2, 1, 0)


def test_the_model_is_that_of_the_flags() -> None:
    """Llama 2 by its flags is the preset, but for words that are padded to 128·T."""
    config = model_config(read_flags(LLAMA.replace("32000", "32001")))
    preset = library.load_model_preset("llama-2-7b").config
    assert config.pop("vocab_size") == 32_128
    assert config == {key: preset[key] for key in config}
    tokens = "--tokenizer-type GPT2BPETokenizer --tensor-model-parallel-size 4"
    gpt = model_config(read_flags(f"--num-layers 2 --hidden-size 64 --num-attention-heads 4 {tokens}"))
    assert (gpt["model_type"], gpt["vocab_size"], gpt["n_inner"]) == ("gpt2", 50_688, 256)


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("--num-layers 61 --decoder-first-pipeline-num-layers 13 --decoder-last-pipeline-num-layers 16",
         (13, 16, 16, 16)),
        ("--num-layers 31 --decoder-last-pipeline-num-layers 7", (8, 8, 8, 7)),
        ("--num-layers 30 --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split",
         (7, 8, 8, 7)),
        ("--num-layers 63 --account-for-loss-in-pipeline-split --num-layers-per-virtual-pipeline-stage 8",
         (8,) * 7 + (7,)),
        ("--num-layers 28 --decoder-first-pipeline-num-layers 4 --num-virtual-stages-per-pipeline-rank 2",
         (2, 4, 4, 4) * 2),
    ],
)  # fmt: skip
def test_uneven_stages_are_those_that_megatron_builds(text: str, blocks: tuple[int, ...]) -> None:
    """Whether outer ranks have a number of their own, or the embedding and the loss count as a block."""
    assert read_stages(read_flags(text), 4).blocks == blocks


@pytest.mark.parametrize(
    ("text", "config"),
    [
        # The width of a gated MLP is 8/3 of the hidden size unless told: 8192 -> 21824, not 32768.
        ("--hidden-size 8192 --swiglu", {"model_type": "llama", "intermediate_size": 21_824}),
        ("--hidden-size 64 --swiglu --kv-channels 32 --group-query-attention",
         {"head_dim": 32, "num_key_value_heads": 1}),
        ("--hidden-size 64 --position-embedding-type rope --max-position-embeddings 131072",
         {"model_type": "gpt_neox", "use_parallel_residual": False}),
        ("--hidden-size 64 --hidden-dropout 0 --attention-dropout 0.0 --max-position-embeddings 512",
         {"model_type": "gpt2", "n_positions": 512, "resid_pdrop": 0, "attn_pdrop": 0}),
        ("--hidden-size 64 --tokenizer-type NullTokenizer --vocab-size 1024", {"vocab_size": 1152}),
    ],
)  # fmt: skip
def test_what_the_flags_leave_out_is_what_megatron_takes(text: str, config: dict[str, Any]) -> None:
    """Widths, positions, dropout and words, without which parameters and memory come out silently wrong."""
    found = model_config(read_flags(f"--num-layers 2 --num-attention-heads 4 --vocab-size 1000 {text}"))
    assert config == {key: found[key] for key in config}


@pytest.mark.parametrize(
    ("text", "precision"),
    [
        ("--fp16", "same"),
        ("--fp16 --accumulate-allreduce-grads-in-fp32", "float32"),
        ("--bf16", "float32"),
        ("--bf16 --grad-reduce-in-bf16", "same"),
    ],
)
def test_gradients_are_as_precise_as_megatron_keeps_them(text: str, precision: str) -> None:
    """In half precision under fp16, in float32 under bf16, unless flags say otherwise."""
    run = read_run(read_flags(f"--micro-batch-size 1 --global-batch-size 8 {text}"))
    assert run.gradient_precision == precision


@pytest.mark.parametrize(
    ("text", "attention"),
    [
        ("--transformer-impl local", "eager"),
        ("--transformer-impl local --use-flash-attn", "flash"),
        ("--transformer-impl local --recompute-granularity selective", "flash"),
        ("--attention-backend unfused", "eager"),
        ("", None),
    ],
)
def test_scores_are_kept_where_no_fused_attention_runs(text: str, attention: str | None) -> None:
    """Megatron's own layers keep the S x S matrices unless they are told to use another kernel."""
    assert read_run(read_flags(f"--micro-batch-size 1 --global-batch-size 8 {text}")).attention == attention


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("--seq-length 8192 --max-position-embeddings 4096", "refuses a --seq-length of 8,192"),
        ("--seq-length 4096 --max-position-embeddings 4096", None),
        ("--rampup-batch-size 4 4 1000", "at the end of the ramp"),
        ("--window-size 1024,0", "--window-size is not modelled"),
    ],
)
def test_what_a_run_will_not_do_as_predicted_is_said(text: str, said: str | None) -> None:
    """Sequences beyond the positions, a growing mini-batch, local attention."""
    notes = read_run(read_flags(f"--micro-batch-size 1 --global-batch-size 8 {text}")).notes
    assert (len(notes) == 1 and said in notes[0]) if said else notes == ()


def test_older_names_and_those_of_megatron_deepspeed_are_known() -> None:
    """Recomputation, sharding and the one expert of a model without experts."""
    text = "--batch-size 2 --global-batch-size 8 --checkpoint-activations --zero-stage 2 --num-experts 1"
    run = read_run(read_flags(text))
    assert (run.micro_batch_size, run.recompute, run.optimizer_sharding) == (2, "layer", "replicas")
    assert run.notes == ("--zero-stage 2 is not modelled: the run is predicted as with 1",)


def test_what_is_not_followed_is_said() -> None:
    """A variable of two branches, and flags that move memory elsewhere; not what a variable is added to."""
    script = (
        'if [ $SIZE = 7 ]; then\nL=4\nelse\nL=40\nfi\nMORE=--bf16\nMORE="$MORE --swiglu"\n'
        f"{RUN} --num-layers $L --optimizer-cpu-offload"
    )
    several, elsewhere = read_run(read_flags(script)).notes
    assert several.startswith("L is set more than once: '40'")
    assert elsewhere.startswith("--optimizer-cpu-offload")


def test_the_best_is_at_least_as_good_as_what_is_run() -> None:
    """The prediction of the run is that of a plan pinned to it, and the gain follows from both."""
    found = compared(RUN)
    assert found.now
    assert (found.now.schedule, found.now.width, found.now.depth) == ("dapple", 16, 4)
    best = chosen_of(found.plan).predicted.throughput_samples_per_s
    assert found.predicted_gain == pytest.approx(best / found.now.predicted.throughput_samples_per_s - 1)
    assert 0 <= found.predicted_gain <= (found.predicted_gain_anywhere or 0)
    assert not found.estimated
    again = compared(f"{RUN} {found.flags}")
    assert again.predicted_gain == pytest.approx(0, abs=1e-9)


def test_an_answer_stays_within_the_tensor_parallelism() -> None:
    """T=4 on 64 devices: 16 ranks, flags with T=4, estimates said to be such."""
    found = compared(RUN + "--tensor-model-parallel-size 4 --sequence-parallel")
    chosen = chosen_of(found.plan)
    assert (found.tensor_parallel, found.devices, found.estimated) == (4, 64, True)
    assert found.now
    assert found.now.width * found.now.depth * 4 == 64
    assert chosen.width * chosen.depth * 4 <= 64
    assert (found.predicted_gain or 0) >= 0
    assert read_run(read_flags(found.flags or "")).tensor_parallel == 4
    assert read_run(read_flags(found.flags or "")).sequence_parallel
    assert any("T=4 is kept" in note for note in found.notes)
    assert found.plan.cluster.devices_per_node == 2


def test_dividing_layers_divides_memory_and_not_quite_time() -> None:
    """One rank of four holds a quarter of the weights, and its all-reduces cost something."""
    whole, part = compared(RUN), compared(RUN + "--tensor-model-parallel-size 4", devices=256)
    assert whole.now
    assert part.now
    assert whole.now.width * whole.now.depth == part.now.width * part.now.depth
    assert part.plan.model.parameters == pytest.approx(whole.plan.model.parameters / 4, rel=0.01)
    speed = part.now.predicted.throughput_samples_per_s / whole.now.predicted.throughput_samples_per_s
    assert 1 < speed < 4


def test_flags_and_a_named_model_tell_of_one_model() -> None:
    """Sizes that differ are refused before anything is predicted of the wrong one."""
    assert compared(RUN, model="llama-2-7b").now
    with pytest.raises(ImportedError, match=r"--hidden-size is 4096, and that of llama-2-13b is 5120"):
        compared(RUN, model="llama-2-13b")


def test_a_run_that_does_not_fit_is_told_with_its_reason() -> None:
    """There is no gain to tell, and still an answer."""
    found = compared(RUN.replace("--micro-batch-size 1", "--micro-batch-size 32"), devices=64)
    assert found.now is None
    assert "GB" in (found.now_reason or "")
    assert found.predicted_gain is None
    assert found.plan.chosen


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("nothing here", ImportedError, "no flags"),
        ("A=$B\nB=$A$A\n" + "--num-layers $A " * 30_000, ImportedError, "more than 1,000,000"),
        ("A=" + "x" * 10**5 + "\n" + "--num-layers $A " * 10**4, ImportedError, "more than 1,000,000"),
        (RUN + "--context-parallel-size 2", ImportedError, "context_parallel=1"),
        (RUN + "--num-experts 8", ImportedError, "experts"),
        (RUN + "--micro-batch-size $B", ImportedError, "micro-batch-size"),
        (RUN + "--micro-batch-size 1.5", ImportedError, "whole number"),
        (RUN + "--pipeline-model-parallel-size 3", RequestError, "do not divide"),
        (RUN + "--tensor-model-parallel-size 16", RequestError, "groups of 16"),
        (RUN + "--pipeline-model-parallel-layout Et*9|x", ImportedError, "layout"),
        (RUN + "--pipeline-model-parallel-layout " + "(" * 99 + "t*99999", ImportedError, "layout"),
        (RUN.replace("--global-batch-size 512", ""), ImportedError, "--global-batch-size is missing"),
        (RUN.replace("--vocab-size 32000", ""), ImportedError, "--vocab-size"),
        ("A=xx\n" + "A=$A$A\n" * 40 + RUN, ImportedError, "more than 1,000,000"),
        (RUN + "--optimizer muon", ImportedError, "muon"),
        (RUN + "--num-layers 30", ImportedError, "30 blocks do not divide over 4 stages"),
        (RUN + "--num-layers-per-virtual-pipeline-stage 3", ImportedError, "32 layers do not divide by 12"),
        (RUN + "--pipeline-model-parallel-layout Et*3|t*4|t*4|t*3L", ImportedError, "together 14"),
        (RUN + "--decoder-first-pipeline-num-layers 9", ImportedError, "23 layers do not divide by 3"),
        (
            RUN + "--pipeline-model-parallel-size 1 --decoder-last-pipeline-num-layers 1",
            ImportedError,
            "say other than --num-layers 32",
        ),
        (RUN + "--multi-latent-attention", ImportedError, "latent attention"),
        (RUN + "--mtp-num-layers 1", ImportedError, "further tokens"),
        (RUN + "--num-attention-heads 4 --tensor-model-parallel-size 8", RequestError, "4 attention heads"),
        (
            RUN.replace("--swiglu", "--group-query-attention --num-query-groups 8"),
            ImportedError,
            "without --swiglu",
        ),
        (RUN.replace("--swiglu", "--hidden-dropout 1.5"), ImportedError, "0 up to but not including 1"),
    ],
)
def test_what_cannot_be_compared_is_named(text: str, error: type[Exception], said: str) -> None:
    """With the flag, and what to do."""
    with pytest.raises(error, match=said):
        compared(text)
