"""Does bad input end in one line that says what is wrong, with exit code 2 and no trace?"""

import json
from pathlib import Path

import pytest

from tests.cli.command import BERT, Result, Shell

ASKED = {"--model": "bert-48", "--cluster": "piz-daint", "--devices": "32", "--mini-batch-size": "512"}


def ask(chimera: Shell, **changes: str | Path) -> Result:
    """Plan with some options changed; `_` stands for `-`."""
    options = ASKED | {f"--{name.replace('_', '-')}": str(value) for name, value in changes.items()}
    return chimera("plan", *(word for pair in options.items() for word in pair), "--json")


def check_refused(result: Result, *wanted: str) -> None:
    """Exit code 2, nothing on stdout, and an error that names what is wrong."""
    assert result.code == 2, result
    assert result.out == ""
    assert result.err.startswith("error: ")
    assert "Traceback" not in result.err
    assert len(result.err) < 3_000
    for words in wanted:
        assert words in result.err


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("model", "bert-84", "bert-48"),
        ("model", "meta-llama/Meta-Llama-3-8B", "llama-3-8b"),
        ("model", "package.module:factory", "config.json"),
        ("model", "", "model"),
        ("model", "x" * 5_000, ""),
        ("model", "\udcff", ""),
        ("model", "../../etc/passwd", ""),
        ("cluster", "daint", "piz-daint"),
        ("cluster", "./cluster.json", "No such file"),
        ("accelerator", "h100", "h100-80gb"),
        ("devices", "0", "greater than or equal to 1"),
        ("devices", "-32", "-32"),
        ("devices", "1e30", "1e30"),
        ("devices", "nan", "nan"),
        ("devices", "1" + "0" * 30, "10000000"),
        ("devices", "9" * 5_000, "devices"),
        ("mini_batch_size", "0", "greater than or equal to 1"),
        ("mini_batch_size", "-512", "-512"),
        ("mini_batch_size", "1" + "0" * 30, "100000000"),
        ("mini_batch_size", "12.5", "12.5"),
        ("sequence_length", "0", "sequence_length"),
        ("sequence_length", "100000", "512"),
        ("precision", "fp8", "float32"),
        ("precision", "bfloat16", "p100-16gb"),
        ("optimizer", "lion", "adam"),
        ("margin", "nan", "margin"),
        ("margin", "inf", "margin"),
        ("margin", "-0.1", "margin"),
        ("margin", "1", "margin"),
        ("margin", "1e30", "margin"),
        ("schedules", "chimera,zigzag", "zigzag"),
        ("schedules", ",", "at least one"),
        ("runs_on", "colossal", "megatron"),
        ("depth", "49", "48"),
        ("depth", "64", ""),
        ("depth", "-1", "depth"),
        ("width", "33", ""),
        ("micro_batch_size", "0", "micro_batch_size"),
        ("top", "0", "top"),
        ("top", "1" + "0" * 30, "top"),
        ("why", "deep=16", "depth"),
        ("why", "depth=many", "depth"),
        ("why", "x" * 500, "why"),
        ("tensor_parallel", "2", "not modelled"),
        ("context_parallel", "8", "not modelled"),
        ("expert_parallel", "8", "not modelled"),
        ("offload", "cpu", "not modelled"),
        ("compression", "fp8", "not modelled"),
        ("zigzag", "1", "--zigzag"),
        ("export", "yaml", "megatron"),
    ],
)
def test_a_wrong_value_is_refused_with_what_would_be_right(
    chimera: Shell, name: str, value: str, wanted: str
) -> None:
    """The message names the option or the value, and the bound or the choices."""
    check_refused(ask(chimera, **{name: value}), wanted)


def test_a_mini_batch_that_no_candidate_divides_names_two_that_would(chimera: Shell) -> None:
    """With W pinned to 3 the neighbours of 512 that divide are named."""
    check_refused(ask(chimera, width="3", depth="4"), "512", "510 or 513")


def test_required_options_are_named(chimera: Shell) -> None:
    """What is missing is said, and where to read on."""
    check_refused(chimera("plan"), "--model", "chimera plan --help")
    check_refused(
        chimera("plan", "--model", "bert-48", "--devices", "8", "--mini-batch-size", "8"), "cluster"
    )


@pytest.mark.parametrize("arguments", [["plna"], ["list", "shoes"], ["--verbose"], ["plan", "extra", *BERT]])
def test_an_unknown_command_is_refused(chimera: Shell, arguments: list[str]) -> None:
    """A slip of the finger is not a trace."""
    check_refused(chimera(*arguments))


def test_chimera_on_one_device_says_what_would_fit(chimera: Shell) -> None:
    """Nothing is legal there: an answer, with exit code 1."""
    result = ask(chimera, devices="1", schedules="chimera")
    assert result.code == 1
    assert "even depth" in json.loads(result.out)["rejected"][0]["reason"]


NOT_CONFIGS = {
    "empty": b"",
    "text": b"hello",
    "binary": bytes(range(256)),
    "truncated": b'{"model_type": "gpt2", "n_layer": ',
    "a list": b"[1, 2]",
    "a number": b"7",
    "null": b"null",
    "an empty object": b"{}",
    "another object": b'{"name": "left-pad", "version": "1.0.0"}',
    "an unknown family": b'{"model_type": "perceptron", "layers": 3}',
    "remote code": b'{"model_type": "gpt2", "auto_map": {"AutoModel": "modeling.Evil"}}',
    "a missing size": b'{"model_type": "gpt2"}',
    "a negative size": b'{"model_type": "gpt2", "n_layer": -1, "n_embd": 64, "n_head": 4, "vocab_size": 100}',
    "a huge size": b'{"model_type": "gpt2", "n_layer": 4, "n_embd": 1e30, "n_head": 4, "vocab_size": 100}',
    "a word for a size": b'{"model_type": "gpt2", "n_layer": "many", "n_embd": 64, "n_head": 4}',
    "NaN": b'{"model_type": "gpt2", "n_layer": NaN}',
    "twice the same key": b'{"model_type": "gpt2", "model_type": "llama"}',
    "deep nesting": b'{"model_type": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "a plan": b'{"chosen": null, "candidates": []}',
    "a model description": b'{"schema_version": 1, "layers": [], "hidden_size": 8}',
    "a profile cut in half": b'{"schema_version": 1, "timings": {}}',
    "half a profile": b'{"schema_version": 1, "description": {}, "timings": {}}',
    "a cluster": b'{"schema_version": 1, "node": {}, "link": {}}',
}


@pytest.mark.parametrize("name", [name for name in NOT_CONFIGS if name != "a missing size"])
def test_a_file_that_is_no_config_is_refused(chimera: Shell, tmp_path: Path, name: str) -> None:
    """The message has the file's name or what is wrong in it."""
    path = tmp_path / "config.json"
    path.write_bytes(NOT_CONFIGS[name])
    check_refused(ask(chimera, model=path, sequence_length="128"))


@pytest.mark.parametrize("option", ["model", "cluster"])
def test_a_large_file_is_refused_with_both_sizes(chimera: Shell, tmp_path: Path, option: str) -> None:
    """50 MB are not read."""
    path = tmp_path / "config.json"
    path.write_bytes(b'{"a": "' + b"x" * 50_000_000 + b'"}')
    check_refused(ask(chimera, **{option: path}), "50,000,009", "8,000,000")


def test_a_folder_without_a_config_is_refused(chimera: Shell, tmp_path: Path) -> None:
    """The folder is named, and what is missing in it."""
    check_refused(ask(chimera, model=tmp_path), "holds no config.json")
    check_refused(ask(chimera, cluster=tmp_path), "Is a directory")


def test_a_config_without_a_sequence_length_is_refused(chimera: Shell, tmp_path: Path) -> None:
    """The option that is missing is named."""
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "gpt2"}')
    check_refused(ask(chimera, model=path), "--sequence-length is required")


def test_a_profile_is_not_bent_to_another_precision(chimera: Shell, tmp_path: Path) -> None:
    """What was profiled at one precision is not planned at another."""
    path = tmp_path / "profile.json"
    written = chimera(
        "profile", "--model", "tiny-gpt", "--on", "estimate", "--accelerator", "p100-16gb", "-o", path
    )
    assert written.code == 0, written.err
    check_refused(ask(chimera, model=path, precision="float16"), "float32")
