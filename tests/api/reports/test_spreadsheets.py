"""Do the tables of an answer hold all of it, and nothing that a spreadsheet would run?"""

import base64
import csv
import gzip
import io
import json
import re

import pytest
from starlette.testclient import TestClient

from api.reports.report import render_report
from api.reports.spreadsheets import candidates_csv, rejected_csv
from profiles import library
from tests.api.conftest import BERT, NO_FIT, Submit
from tests.plans import answer_once
from tuner.request import read_request


def read(text: str) -> list[dict[str, str]]:
    """The rows by column."""
    return list(csv.DictReader(io.StringIO(text)))


def test_every_candidate_and_every_rejected_configuration_is_in_its_table() -> None:
    """With full precision, units in the names, and reasons as they stand in the plan."""
    plan = answer_once(read_request(BERT | {"search": "exhaustive"}), library)
    rows, refused = read(candidates_csv(plan)), read(rejected_csv(plan))
    assert [float(row["iteration_s"]) for row in rows] == [
        candidate.predicted.iteration_s for candidate in plan.candidates
    ]
    assert [row["place"] for row in rows] == [str(place) for place in range(1, len(rows) + 1)]
    assert all(sum(map(int, row["stage_layers"].split())) == plan.model.blocks for row in rows)
    assert [row["reason"] for row in refused] == [entry.reason for entry in plan.rejected]
    assert {row["kind"] for row in refused} == {entry.kind for entry in plan.rejected}


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", '=HYPERLINK("http://a.example")'])
def test_a_formula_is_text(text: str) -> None:
    """An apostrophe stands in front; what follows is untouched."""
    plan = answer_once(read_request(NO_FIT), library)
    plan = plan.model_copy(update={"rejected": (plan.rejected[0].model_copy(update={"reason": text}),)})
    (row,) = read(rejected_csv(plan))
    assert row["reason"] == f"'{text}"


def test_tables_are_downloaded(client: TestClient, submit: Submit) -> None:
    """As files with names of their own; there is no other table."""
    study = submit(**BERT)
    here = study["links"]["self"]
    for table, key in (("candidates", "candidates"), ("rejected", "rejected")):
        answered = client.get(f"{here}/{table}.csv")
        assert answered.headers["content-type"] == "text/csv; charset=utf-8"
        assert answered.headers["content-disposition"].endswith(f'-{table}.csv"')
        assert len(read(answered.text)) == len(study["plan"][key])
    assert read(client.get(f"{here}/trials.csv").text) == []
    assert client.get(f"{here}/passwords.csv").status_code == 422


def test_a_report_in_one_file_holds_its_tables() -> None:
    """Compressed; inflated they are the plan and its CSV, byte for byte."""
    plan = answer_once(read_request(BERT), library)
    page = render_report(plan, standalone=True)
    held = dict(re.findall(r'<script type="text/plain" id="file-([a-z-]+)"[^>]*>([^<]*)</script>', page))
    inflated = {name: gzip.decompress(base64.b64decode(content)).decode() for name, content in held.items()}
    assert json.loads(inflated["plan-json"]) == json.loads(plan.to_json())
    assert inflated["candidates-csv"] == candidates_csv(plan)
    assert inflated["rejected-csv"] == rejected_csv(plan)
