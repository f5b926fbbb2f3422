"""What can be read from a service? Everything that its API and its pages show of what it keeps."""

from collections.abc import Iterator
from typing import Any

from starlette.testclient import TestClient

PARTS = ("report", "candidates", "rejected", "trials", "trace", "export/env", "export/json")


def read_everything(client: TestClient, *, parts: tuple[str, ...] = PARTS) -> dict[str, str]:
    """The text at each address, none of which may fail; 409 is the answer where nothing fits."""
    return {path: _read(client, path) for path in _addresses(client, parts)}


def _addresses(client: TestClient, parts: tuple[str, ...]) -> Iterator[str]:
    for kind in (
        "studies",
        "jobs",
        "workers",
        "keys",
        "profiles",
        "clusters",
        "measurements",
        "calibrations",
    ):
        for item in _items(client, f"/v1/{kind}"):
            yield f"/v1/{kind}/{item['id']}" if kind != "workers" else f"/v1/workers?limit=100&{item['id']}"
            if kind == "studies":
                yield f"/studies/{item['id']}"
                yield from (f"/v1/studies/{item['id']}/{part}" for part in parts)
                if item["status"] in {"done", "failed", "cancelled"}:
                    yield f"/v1/studies/{item['id']}/events"
            if kind == "jobs":
                document = client.get(f"/v1/jobs/{item['id']}").json()
                yield from (attachment["link"] for attachment in document["attachments"])


def _items(client: TestClient, path: str) -> Iterator[dict[str, Any]]:
    cursor: str | None = None
    while True:
        answer = client.get(path, params={"cursor": cursor} if cursor else {})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        yield from page["items"]
        cursor = page["next"]
        if cursor is None:
            return


def _read(client: TestClient, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code in {200, 409}, f"{path}: {answer.status_code} {answer.text[:500]}"
    return answer.text
