"""Do tables and traces of layer times become profiles that plans can use?"""

import json
from pathlib import Path
from typing import Any

import pytest

from profiles import library
from profiles.model import ModelDescription
from profiles.timings import Profile
from tuner.estimate import describe
from tuner.imports.csv_times import read_csv
from tuner.imports.errors import ImportedError
from tuner.imports.kineto import read_trace
from tuner.imports.layer_times import LayerTime, names_of, profile_from_times
from tuner.interface import plan

TIMES = """layer,micro_batch_size,forward_ms,backward_ms,activation_bytes
embedding,1,0.1,0.2,
block,1,2.0,4.0,1000000
block,1,4.0,8.0,1000000
layers.1,1,3.0,6.0,1000000
block,4,8.0,16.0,4000000

head,1,1,2,
"""


@pytest.fixture(scope="module")
def tiny() -> ModelDescription:
    """The description of tiny-gpt."""
    preset = library.load_model_preset("tiny-gpt")
    return describe(preset.config, sequence_length=preset.sequence_length, precision="float32",
                    attention="eager", name="tiny-gpt")  # fmt: skip


def imported(tiny: ModelDescription, times: list[LayerTime]) -> Profile:
    """The profile of some times."""
    cpu = library.load_accelerator("cpu")
    return profile_from_times(tiny, times, cpu, names=names_of(tiny), source="times.csv")


def test_a_table_becomes_a_profile_that_is_planned_with(tiny: ModelDescription) -> None:
    """Medians of equal layers in seconds; what was not timed is estimated, and the profile says which."""
    document = imported(tiny, list(read_csv(TIMES, name="times.csv")))
    types = {entry.type: entry for entry in document.timings.types}
    block = types[tiny.layers[1].type]
    assert [(p.micro_batch_size, p.forward_s, p.backward_s, p.repeats) for p in block.points] == [
        (1, 0.003, 0.006, 3), (4, 0.008, 0.016, 1),
    ]  # fmt: skip
    assert block.provenance == "measured"
    assert block.points[0].spread == pytest.approx(0.272, abs=0.001)
    assert block.points[0].activation_bytes == 1_000_000
    assert document.timings.notes == ("not timed, and estimated: loss",)
    answer = plan(document, cluster="local-cpu", devices=2, mini_batch_size=8)
    assert answer.provenance.hashes["profile"] == document.fingerprint()
    assert Profile.from_json(document.to_json()) == document


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no column"),
        ("layer,forward,backward\nblock,1,2", "need their unit"),
        ("layer,forward_s,backward_s\nblock,1,2", "micro_batch_size"),
        ("layer,forward_s,forward_ms,backward_s\nblock,1,2,3", "forward_s and forward_ms"),
        ("layer,layer,forward_s,backward_s\nblock,head,1,2", "two columns 'layer'"),
        ("layer,micro_batch_size,forward_s,backward_s\nblock,1,2", "3 cells under 4 columns"),
        ("layer,micro_batch_size,forward_s,backward_s\nblock,1,nan,2", "line 2: 'nan' is not a time"),
        ("layer,micro_batch_size,forward_s,backward_s\nblock,0,1,2", "whole number"),
        ("layer,micro_batch_size,forward_s,backward_s\nblock,1,-1,2", "not a time"),
        ("layer,micro_batch_size,forward_s,backward_s\nhead,1,1,2", "no times of"),
    ],
)
def test_a_table_that_says_too_little_is_refused(tiny: ModelDescription, text: str, said: str) -> None:
    """With the line, or what is missing."""
    with pytest.raises(ImportedError, match=said):
        imported(tiny, list(read_csv(text, name="times.csv")))


def test_a_header_may_be_written_in_capitals() -> None:
    """And with blanks in place of underscores."""
    text = "Layer,Micro batch size,Forward ms,Backward ms\nblock,2,1,3\n"
    (time,) = read_csv(text, name="times.csv")
    assert (time.micro_batch_size, time.forward_s, time.backward_s) == (2, 0.001, 0.003)


def test_a_trace_of_a_real_model_gives_its_layers_times(tiny: ModelDescription, tmp_path: Path) -> None:
    """Ranges named as layers: each has the time of its forward and of the backward that belongs to it."""
    torch = pytest.importorskip("torch", reason="needs torch")
    layers = [torch.nn.Linear(64, 64) for _ in range(3)]
    layers[1] = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(20)])  # 20 times the work
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for _ in range(3):
            value = torch.randn(256, 64)
            for number, layer in enumerate(layers):
                with torch.profiler.record_function(f"layers.{number}"):
                    value = layer(value)
            value.mean().backward()
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(path))
    names = [("small", "layers.0"), ("large", "layers.1"), ("small", "layers.2")]
    times = list(read_trace(json.loads(path.read_text()), name="t", micro_batch_size=2, names=names))
    assert [time.layer for time in times] == [f"layers.{number}" for number in (0, 1, 2)] * 3
    large, small = (sorted(time.backward_s for time in times if (time.layer == "layers.1") == is_large)[1]
                    for is_large in (True, False))  # fmt: skip
    assert large > 3 * small


def event(name: str, category: str, thread: int, start: float, length: float, **arguments: Any) -> Any:
    """An event of a trace, in microseconds."""
    return {"ph": "X", "name": name, "cat": category, "pid": 1, "tid": thread, "ts": start, "dur": length,
            "args": {key.replace("_", " "): value for key, value in arguments.items()}}  # fmt: skip


def test_kernels_count_where_a_trace_has_them() -> None:
    """A forward is the union of the kernels that its range launched, however late they ran."""
    trace = {
        "traceEvents": [
            event("layers.0", "user_annotation", 1, 0, 10),
            event("aten::mm", "cpu_op", 1, 1, 5, Sequence_number=7),
            event("cudaLaunchKernel", "cuda_runtime", 1, 2, 1, correlation=1),
            event("cudaLaunchKernel", "cuda_runtime", 1, 4, 1, correlation=2),
            event("gemm", "kernel", 9, 100, 30, correlation=1),
            event("relu", "kernel", 9, 120, 30, correlation=2),
            event("aten::next", "cpu_op", 1, 11, 5, Sequence_number=8),
            event("autograd::engine::evaluate_function: MmBackward", "cpu_op", 2, 20, 9, Sequence_number=7),
            event("cudaLaunchKernel", "cuda_runtime", 2, 22, 1, correlation=3),
            event("gemm", "kernel", 9, 200, 50, correlation=3),
            event("another of one graph", "kernel", 9, 250, 30, correlation=3),
            event("of nobody", "kernel", 9, 900, 80),
            event("cudaEventQuery", "cuda_runtime", 2, 23, 1),
            {"ph": "i", "name": "note"},
            "junk",
        ]
    }
    (time,) = read_trace(trace, name="t", micro_batch_size=4, names=[("block", "layers.*")])
    assert (time.micro_batch_size, time.forward_s, time.backward_s) == (
        4,
        pytest.approx(50e-6),
        pytest.approx(80e-6),
    )


def launched(*kernels: Any) -> Any:
    """A forward and a backward, the forward with one launch after the other of some kernels."""
    launches = [
        event("cudaLaunchKernel", "cuda_runtime", 1, 2 + number, 1, correlation=number)
        for number in range(len(kernels))
    ]
    return [
        event("layers.0", "user_annotation", 1, 0, 10),
        event("aten::linear", "cpu_op", 1, 1, 8, **{"Sequence number": 7}),
        *launches, *kernels,
        event("autograd::engine::evaluate_function: X", "cpu_op", 2, 20, 10, **{"Sequence number": 7}),
        event("cudaLaunchKernel", "cuda_runtime", 2, 22, 1, correlation=99),
        event("gemm", "kernel", 9, 200, 50, correlation=99),
    ]  # fmt: skip


def test_a_kernel_ends_when_the_next_of_its_stream_begins() -> None:
    """An end that a profiler wrote seconds late counts until then; other streams run beside it."""
    late = event("gemm", "kernel", 9, 100, 1_600_000, correlation=0)
    beside = event("copy", "gpu_memcpy", 8, 100, 45, correlation=1)
    after = event("relu", "kernel", 9, 130, 10, correlation=2)
    (time,) = read_trace(
        launched(late, beside, after), name="x", micro_batch_size=1, names=[("block", "layers.*")]
    )
    assert time.forward_s == pytest.approx(45e-6)


def test_a_trace_whose_kernels_have_lost_their_times_is_refused() -> None:
    """Kernels at moment 0 that last 0 would make their layer seem faster than it is."""
    lost = event("gemm", "kernel", 9, 0, 0, correlation=1)
    kept = event("relu", "kernel", 9, 130, 10, correlation=0)
    with pytest.raises(ImportedError, match="1 of the 3 kernels"):
        list(read_trace(launched(kept, lost), name="x", micro_batch_size=1, names=[("block", "layers.*")]))


def test_times_written_as_text_are_read() -> None:
    """As the profiler of another device writes them; another process has numbers of its own."""
    rows = [
        event("layers.0", "user_annotation", 1, 0, 10),
        event("aten::mm", "cpu_op", 1, 1, 5, Sequence_number=7),
        event("autograd::engine::evaluate_function: X", "cpu_op", 2, 20, 9, Sequence_number=7),
        event("autograd::engine::evaluate_function: X", "cpu_op", 2, 40, 9, Sequence_number=7) | {"pid": 2},
    ]
    rows = [row | {"ts": f"{row['ts']}.000", "dur": str(row["dur"])} for row in rows]
    (time,) = read_trace(rows, name="t", micro_batch_size=1, names=[("block", "layers.*")])
    assert (time.forward_s, time.backward_s) == (pytest.approx(10e-6), pytest.approx(9e-6))


@pytest.mark.parametrize(
    "trace", [{}, {"traceEvents": 1}, {"traceEvents": []}, [], {"traceEvents": [{"ph": "X"}]}]
)
def test_what_is_no_trace_is_refused(trace: Any) -> None:
    """In words, and without an exception of Python's own."""
    with pytest.raises(ImportedError, match="trace"):
        list(read_trace(trace, name="t", micro_batch_size=1, names=[]))
