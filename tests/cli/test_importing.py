"""Does `chimera import` read what other tools measured or run?"""

import gzip
import json
import shlex
from pathlib import Path

import pytest

from tests.cli.command import Shell
from tests.cli.test_help import read_examples
from tests.tuner.imports.test_megatron import RUN
from tests.tuner.imports.test_times import TIMES, event

TINY = ("--model", "tiny-gpt", "--accelerator", "cpu")


def test_the_example_for_times_runs(chimera: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file is there; what it writes can be planned with."""
    monkeypatch.chdir(tmp_path)
    Path("times.csv").write_text(TIMES)
    (example,) = read_examples(chimera("import", "times", "--help").out)
    result = chimera(*example[1:])
    assert (result.code, result.out) == (0, "")
    assert "not timed, and estimated: loss" in result.err
    asked = ("--cluster", "local-cpu", "--devices", "2", "--mini-batch-size", "8")
    assert chimera("plan", "--model", "profile.json", *asked).code == 0


def test_traces_are_read_zipped_or_not(chimera: Shell, tmp_path: Path) -> None:
    """Each at its size, with patterns for names that are not the model's, and with broken letters."""
    events = [
        event("nn.Module: Block_0", "python_function", 1, 0, 10),
        event("aten::mm", "cpu_op", 1, 1, 5, Sequence_number=7),
        event("autograd::engine::evaluate_function: X", "cpu_op", 2, 20, 9, Sequence_number=7),
    ]
    text = json.dumps({"traceEvents": events})
    (tmp_path / "a.json").write_text(text)
    broken = text.encode().replace(b"aten::mm", b"aten\x00\x01::mm \xe2\x28\xa1")
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(broken))
    files = (tmp_path / "a.json", tmp_path / "b.json.gz")
    words = ("--micro-batch-sizes", "1,4", "--match", "block=Block_*", "--json")
    document = json.loads(chimera("import", "times", *files, *TINY, *words).out)
    points = next(entry for entry in document["timings"]["types"] if entry["type"] == "block")["points"]
    read = [(point["micro_batch_size"], pytest.approx(point["forward_s"])) for point in points]
    assert read == [(1, 1e-5), (4, 1e-5)]


def test_a_run_is_compared_from_flags_a_file_or_a_script(chimera: Shell, tmp_path: Path) -> None:
    """The same document, and for people the gain and the flags of the best."""
    (tmp_path / "run.sh").write_text(f"torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py {RUN}")
    h100 = ("--cluster", "dgx-h100", "--json")
    read = json.loads(chimera("import", "megatron", tmp_path / "run.sh", *h100).out)
    given = json.loads(chimera("import", "megatron", *h100, "--devices", "16", "--", *shlex.split(RUN)).out)
    assert read == given
    assert read["devices"] == 16
    told = chimera("import", "megatron", tmp_path / "run.sh", "--cluster", "dgx-h100").out
    assert "now       " in told
    assert f"{read['predicted_gain'] * 100:,.1f} %" in told
    assert "--micro-batch-size" in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("megatron", "--cluster", "dgx-h100"), "give a file"),
        (("megatron", "nowhere.sh", "--cluster", "dgx-h100"), "cannot read"),
        (
            ("megatron", "--cluster", "dgx-h100", "--", "--micro-batch-size", "1"),
            "--global-batch-size is missing",
        ),
        (("times", "nowhere.csv", *TINY), "cannot read"),
        (("times", "/dev/null", *TINY), "no column"),
        (("times", "/dev/null", *TINY, "--micro-batch-sizes", "1,2"), "one each"),
        (("times", "/dev/null", *TINY, "--match", "block"), "--match"),
        (("times", "/dev/null", *TINY, "--match", "blok=x"), "no type of layer"),
    ],
)
def test_what_cannot_be_read_is_bad_input(chimera: Shell, words: tuple[str, ...], said: str) -> None:
    """One line that says what is wrong."""
    result = chimera("import", *words)
    assert (result.code, result.out) == (2, "")
    assert said in result.err


def test_times_in_the_wrong_unit_are_doubted(chimera: Shell, tmp_path: Path) -> None:
    """They are taken as they are, with a sentence that names the layer; columns apart by ; are refused."""
    table = tmp_path / "times.csv"
    table.write_text("layer,micro_batch_size,forward_s,backward_s\nblock,1,2000,4100\n")
    result = chimera("import", "times", table, *TINY, "-o", tmp_path / "profile.json")
    assert result.code == 0
    assert "block at B=1 is said to take 6.1e+03 s" in result.err
    table.write_text("layer;micro_batch_size;forward_ms;backward_ms\nblock;1;2,0;4,1\n")
    result = chimera("import", "times", table, *TINY)
    assert (result.code, result.out) == (2, "")
    assert "semicolons" in result.err


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"[" * 100_000,
        b"\x1f\x8b junk",
        b"\xff\xfe",
        b'{"traceEvents": 3}',
        b'{"traceEvents": [{"ph": "X", "pid": [1], "tid": {}, "ts": 1, "dur": 1, "args": 7, "name": {}}]}',
        b'{"traceEvents": [{"ph": "X", "ts": 1' + b"0" * 400 + b', "dur": NaN}]}',
        b'layer,forward_s,backward_s\n"' + b"x" * 200_000,
        b"layer,forward_s,backward_s\nblock,1\x00,2",
    ],
    ids=range(9),
)
def test_broken_files_are_bad_input(chimera: Shell, tmp_path: Path, raw: bytes) -> None:
    """Whatever is in them."""
    (tmp_path / "broken").write_bytes(raw)
    result = chimera("import", "times", tmp_path / "broken", *TINY, "--micro-batch-sizes", "1")
    assert (result.code, result.out) == (2, "")
    assert result.err.count("\n") == 1
