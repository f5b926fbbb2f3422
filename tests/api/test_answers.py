"""Are the parts of an answer served as pages, a report and exports?"""

import pytest
from starlette.testclient import TestClient

from tests.api.conftest import BERT, Submit
from tests.api.page import loaded
from tuner.exports import FORMATS, export
from tuner.plan import Plan


@pytest.mark.parametrize("part", ["candidates", "rejected"])
def test_parts_are_paged(client: TestClient, submit: Submit, part: str) -> None:
    """All pages together are the list in the plan, in its order."""
    study = submit(**BERT)
    whole = study["plan"][part]
    seen, cursor = [], None
    while True:
        page = client.get(
            study["links"][part], params={"limit": 7} | ({"cursor": cursor} if cursor else {})
        ).json()
        seen += page["items"]
        cursor = page["next"]
        assert page["total"] == len(whole)
        if cursor is None:
            break
        assert len(page["items"]) == 7
    assert seen == whole


def test_rejected_are_filtered_by_kind(client: TestClient, submit: Submit) -> None:
    """Each kind of reason has a list of its own."""
    study = submit(**BERT)
    page = client.get(study["links"]["rejected"], params={"kind": "memory", "limit": 500}).json()
    assert page["items"] == [entry for entry in study["plan"]["rejected"] if entry["kind"] == "memory"]
    assert client.get(study["links"]["rejected"], params={"kind": "mood"}).status_code == 422


@pytest.mark.parametrize("cursor", ["-1", "x", "1e3", "٣", "9" * 20])
def test_a_cursor_from_elsewhere_is_refused(client: TestClient, submit: Submit, cursor: str) -> None:
    """422 that says to pass `next`."""
    refused = client.get(submit()["links"]["candidates"], params={"cursor": cursor})
    assert refused.status_code == 422
    assert "`next`" in refused.json()["detail"]


def test_there_are_no_trials_without_a_worker(client: TestClient, submit: Submit) -> None:
    """The list is there and empty."""
    assert client.get(submit()["links"]["trials"]).json() == {"items": [], "next": None, "total": 0}


@pytest.mark.parametrize("format", FORMATS)
def test_exports_are_those_of_the_tuner(client: TestClient, submit: Submit, format: str) -> None:
    """The text and the media type are the tuner's own."""
    study = submit(**BERT)
    answered = client.get(study["links"]["export"].format(format=format))
    text, media_type = export(Plan.model_validate(study["plan"]), format)
    assert answered.status_code == 200
    assert answered.text == text
    assert answered.headers["content-type"].startswith(media_type)


def test_an_unknown_export_is_not_found_and_the_known_ones_are_named(
    client: TestClient, submit: Submit
) -> None:
    """404 with the formats."""
    refused = client.get(submit()["links"]["export"].format(format="punchcards"))
    assert refused.status_code == 404
    for format in FORMATS:
        assert format in refused.json()["detail"]


def test_the_report_is_one_file_in_an_origin_of_its_own(client: TestClient, submit: Submit) -> None:
    """It loads nothing, and its scripts could not reach the service."""
    answered = client.get(submit()["links"]["report"])
    assert answered.headers["content-type"].startswith("text/html")
    assert answered.headers["content-security-policy"].startswith("sandbox allow-scripts")
    assert loaded(answered.text) == []
    assert len(answered.content) < 8_000_000
