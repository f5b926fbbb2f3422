"""Do programs and notebooks get the answers of the command line, under names that stay?"""

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner
from profiles import library
from profiles.errors import DocumentError
from tests.cli.command import Shell
from tests.plans import make_candidate, make_plan
from tuner import calibrate, export, plan, score, simulate
from tuner.errors import RequestError, TunerError
from tuner.plan import Plan
from tuner.request import read_request

NAMES = ["calibrate", "export", "plan", "score", "simulate"]
BERT: dict[str, Any] = {"cluster": "piz-daint", "devices": 32, "mini_batch_size": 512}
CONFIG = json.loads((Path(__file__).parents[2] / "examples/llama-3-8b/config.json").read_text())
H100: dict[str, Any] = {"cluster": "dgx-h100", "devices": 16, "mini_batch_size": 64, "sequence_length": 2048}


class Balanced(HTMLParser):
    """Fails where a piece of HTML closes what it did not open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember it."""
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """It must be the last one opened."""
        assert self.open.pop() == tag


def check_html(answer: Any) -> str:
    """The piece of HTML that a notebook shows."""
    text = answer._repr_html_()
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []
    assert "<script" not in text
    return str(text)


def test_the_names_are_those_that_were_promised() -> None:
    """Added to, never renamed; all of them are functions, whichever modules were imported before."""
    assert tuner.__all__ == NAMES
    assert all(callable(getattr(tuner, name)) for name in NAMES)
    assert set(NAMES) <= set(dir(tuner))


def test_importing_the_package_imports_nothing_else() -> None:
    """A name is loaded when it is first used."""
    code = (
        "import sys; before = set(sys.modules); import tuner; new = set(sys.modules) - before; "
        "heavy = {'numpy', 'pydantic', 'profiles', 'torch', 'httpx'}; sys.exit(sorted(new & heavy) or 0)"
    )
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0


def test_a_plan_is_that_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The same document, whether asked with a preset and options, one mapping or a request."""
    told = json.loads(Shell(capsys)("plan", "--model", "bert-48", "--cluster", "piz-daint", "--devices", "32",
                                    "--mini-batch-size", "512", "--json").out)  # fmt: skip
    del told["search_s"]
    answer = plan("bert-48", **BERT)
    assert answer.model_dump(mode="json") == told
    assert plan({"model": "bert-48", **BERT}) == plan(read_request({"model": "bert-48", **BERT})) == answer
    assert plan(model="bert-48", **BERT) == answer
    assert export(answer, "env").startswith("export CHIMERA_SCHEDULE=")


def test_documents_go_in_as_objects_or_as_json() -> None:
    """A config.json, a cluster and a calibration; equal content gives equal answers."""
    cluster = library.load_cluster("dgx-h100")
    given = plan(CONFIG, **H100 | {"cluster": cluster})
    assert given == plan({"config": CONFIG}, **H100 | {"cluster": json.loads(cluster.to_json())})
    assert given.chosen
    rows = library.load_measurements("chimera-sc21")
    calibration = calibrate(rows.model_copy(update={"measurements": rows.measurements[:8]}))
    calibrated = plan("bert-48", **BERT, calibration=calibration)
    assert calibrated == plan("bert-48", **BERT, calibration=json.loads(calibration.to_json()))
    assert calibrated.provenance.hashes["calibration"] == calibration.fingerprint()


def test_a_score_takes_a_document_or_its_name() -> None:
    """With a calibration errors shrink on what it has seen."""
    rows = library.load_measurements("chimera-sc21")
    scored = score(rows, schedules=["dapple"])
    assert score("chimera-sc21", schedules=["dapple"]) == scored
    assert "mean absolute error" in check_html(scored)


def test_a_simulation_draws_itself() -> None:
    """Figures as of `chimera simulate`, every operation with its name, and other forms of the timeline."""
    simulation = simulate(schedule="dapple", depth=2, micro_batches=3)
    assert simulation.makespan == (3 + 1) * 3
    text = check_html(simulation)
    assert text.count("<rect") == 2 * 2 * 3
    assert "<title>F0: 0 to 1</title>" in text
    assert simulation.torch_csv().count("\n") == 2
    assert json.loads(simulation.trace())["traceEvents"]
    assert "rank 1" in simulation.text()
    assert "<rect" not in check_html(simulate("gpipe", depth=100, micro_batches=2))


def test_a_plan_shows_its_choice_and_nothing_of_a_name_runs() -> None:
    """The sentence of the choice, or what would make the model fit; names are text."""
    shown = check_html(make_plan(make_candidate(), model={"name": "<img src=x onerror=alert(1)>"}))
    assert "<b>W=2</b> data-parallel x <b>D=4</b> pipeline" in shown
    assert "<img" not in shown
    assert "Nothing fits on 4 x" in check_html(
        plan("llama-3-70b", cluster="dgx-h100", devices=4, mini_batch_size=64)
    )


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: plan("bert-48", cluster="piz-daint", devices=0, mini_batch_size=512), TunerError, "devices"),
        (lambda: plan("bert-48", **BERT | {"devices": np.int64(0)}), TunerError, "not 0"),
        (lambda: plan(Path("config.json"), **BERT), RequestError, "read_text"),
        (lambda: plan("no-such", **BERT), DocumentError, "no-such"),
        (lambda: plan("/etc/passwd", **BERT), DocumentError, "passwd"),
        (lambda: plan(read_request({"model": "bert-48", **BERT}), devices=8), RequestError, "devices"),
        (lambda: plan("bert-48", **BERT, depht=4), RequestError, "depht"),
        (lambda: plan({"description": {}, "timings": {}}, **BERT), DocumentError, "profile"),
        (lambda: simulate("dapple", depth=2), RequestError, "micro_batches"),
        (lambda: score({"source": "x"}), DocumentError, "measurements"),
        (
            lambda: export(Plan.model_validate(make_plan(None).model_dump()), "env"),
            TunerError,
            "nothing fits",
        ),
    ],
)
def test_what_is_wrong_is_named(call: Any, error: type[Exception], said: str) -> None:
    """As on the command line."""
    with pytest.raises(error, match=said):
        call()
