"""Are checks of models kept, found newest first, and only as what they are?"""

from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.api.conftest import Clock

ANSWER = {"name": "team/ours", "status": "new"}
CHECK = {
    "project": "p",
    "branch": "main",
    "checked_at": "2026-11-30T12:00:00Z",
    "accepted": False,
    "answer": ANSWER,
}


def test_checks_are_listed_newest_first_page_by_page(client: TestClient, clock: Clock) -> None:
    """By model, project and branch, with their content, none twice."""
    made = []
    for hour in range(3):
        answer = client.post("/v1/checks", json=CHECK | {"checked_at": f"2026-11-30T1{hour}:00:00Z"})
        assert answer.status_code == 201, answer.text
        made.append(answer.json()["id"])
        clock.forward(minutes=1)
    client.post("/v1/checks", json=CHECK | {"project": "q"})
    client.post("/v1/checks", json=CHECK | {"answer": ANSWER | {"name": "other"}})
    asked = {"model": "team/ours", "project": "p", "branch": "main", "accepted": "false", "mine": "true"}
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        params = asked | {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = client.get("/v1/checks", params=params).json()
        found += page["items"]
        cursor = page["next"]
        if cursor is None:
            break
    assert [each["id"] for each in found] == made[::-1]
    assert found[0]["document"]["answer"]["name"] == "team/ours"
    assert client.get("/v1/checks", params=asked | {"accepted": "true"}).json()["items"] == []
    assert client.get(f"/v1/checks/{made[0]}").json()["name"] == "team/ours"


@pytest.mark.parametrize(
    "wrong",
    [
        {"accepted": True},
        {"url": "javascript:alert(1)"},
        {"answer": ANSWER | {"links": {"report": "javascript:alert(1)"}}},
        {"answer": ANSWER | {"name": ""}},
        {"checked_at": "2026-11-30T12:00:00"},
        {"study": "../../login"},
    ],
    ids=str,
)
def test_a_check_is_kept_only_as_what_it_is(sqlite_client: TestClient, wrong: dict[str, Any]) -> None:
    """No links but to what it names, nothing accepted that was not measured, no moment without a zone."""
    assert sqlite_client.post("/v1/checks", json=CHECK | wrong).status_code == 422


def test_a_cursor_of_another_list_is_refused(sqlite_client: TestClient) -> None:
    """One that is no fingerprint, and one of no check."""
    for cursor, status in (("1", 422), ("0" * 64, 404)):
        assert sqlite_client.get("/v1/checks", params={"cursor": cursor}).status_code == status
