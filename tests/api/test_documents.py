"""Are profiles, clusters and measurements kept once, by content, and only when they are sound?"""

import copy
from typing import Any

import pytest
from starlette.testclient import TestClient

from api.service import Service
from api.storage.tables import DocumentKind, StoredDocument
from profiles import library
from profiles.timings import LayerTimings, Profile, TimingPoint, TypeTimings
from tests.api.conftest import TINY
from tuner.estimate import describe


def small_profile() -> Profile:
    """tiny-gpt at sequence length 64, with round timings."""
    preset = library.load_model_preset("tiny-gpt")
    description = describe(
        preset.config, sequence_length=64, precision="float32", attention="eager", name="measured-gpt"
    )
    points = (TimingPoint(micro_batch_size=1, forward_s=0.001, backward_s=0.002),)
    types = {layer.type: layer.shape for layer in description.layers}
    return Profile(
        description=description,
        timings=LayerTimings(
            name="round",
            accelerator="cpu",
            software="none",
            precision="float32",
            attention="eager",
            sequence_length=64,
            types=tuple(
                TypeTimings(type=name, shape=shape, provenance="measured", points=points)
                for name, shape in types.items()
            ),
        ),
    )


def documents() -> dict[str, dict[str, Any]]:
    """A sound document for each address."""
    measured = library.load_measurements(library.names("measurements")[0])
    return {
        "profiles": small_profile().model_dump(mode="json"),
        "clusters": library.load_cluster("dgx-h100").model_dump(mode="json"),
        "measurements": measured.model_dump(mode="json", exclude_none=True),
    }


@pytest.mark.parametrize("kind", ["profiles", "clusters", "measurements"])
def test_a_document_is_kept_once_under_its_fingerprint(client: TestClient, kind: str) -> None:
    """201 the first time, 200 afterwards, with one id; it is listed and read back."""
    document = documents()[kind]
    first = client.post(f"/v1/{kind}", json=document)
    assert first.status_code == 201, first.text
    again = client.post(f"/v1/{kind}", json=dict(reversed(document.items())))
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    assert len(first.json()["id"]) == 64
    assert first.headers["location"] == f"/v1/{kind}/{first.json()['id']}"
    (entry,) = client.get(f"/v1/{kind}").json()["items"]
    assert entry["id"] == first.json()["id"]
    assert "document" not in entry
    assert client.get(first.headers["location"]).json() == first.json()


@pytest.mark.parametrize("kind", ["profiles", "clusters", "measurements"])
@pytest.mark.parametrize("change", [{"extra": 1}, {"schema_version": 2}])
def test_a_document_is_checked_strictly(client: TestClient, kind: str, change: dict[str, Any]) -> None:
    """Unknown keys and versions are refused by name, and nothing is kept."""
    refused = client.post(f"/v1/{kind}", json=documents()[kind] | change)
    assert refused.status_code == 422
    assert next(iter(change)) in refused.json()["detail"]
    assert client.get(f"/v1/{kind}").json()["items"] == []


@pytest.mark.parametrize("kind", ["profiles", "clusters", "measurements"])
@pytest.mark.parametrize("body", [[], 1, "text", True, {}])
def test_what_is_no_document_is_refused(sqlite_client: TestClient, kind: str, body: object) -> None:
    """422 with the places."""
    assert sqlite_client.post(f"/v1/{kind}", json=body).status_code == 422


def test_documents_are_paged_by_id(client: TestClient) -> None:
    """Pages follow each other without repeats."""
    for name in library.names("clusters")[:5]:
        cluster = library.load_cluster(name).model_dump(mode="json")
        assert client.post("/v1/clusters", json=cluster).status_code == 201
    first = client.get("/v1/clusters?limit=3").json()
    second = client.get("/v1/clusters", params={"limit": 3, "cursor": first["next"]}).json()
    ids = [entry["id"] for entry in first["items"] + second["items"]]
    assert len(set(ids)) == 5
    assert ids == sorted(ids)
    assert second["next"] is None


def test_an_unknown_document_is_not_found(client: TestClient) -> None:
    """404, also for the id of another kind."""
    stored = client.post("/v1/clusters", json=documents()["clusters"]).json()
    assert client.get(f"/v1/profiles/{stored['id']}").status_code == 404
    assert client.get("/v1/profiles/nothing").status_code == 404


def test_a_stored_profile_can_be_planned_with(client: TestClient) -> None:
    """`model: {"profile": id}` uses its measured timings; its hash is in the provenance."""
    stored = client.post("/v1/profiles", json=documents()["profiles"]).json()
    asked = TINY | {"model": {"profile": stored["id"]}}
    study = client.post("/v1/studies", json=asked)
    assert study.status_code == 201, study.text
    plan = study.json()["plan"]
    assert plan["model"]["name"] == "measured-gpt"
    assert plan["provenance"]["timings"] == "measured"
    assert plan["provenance"]["hashes"]["profile"] == stored["id"]


def test_a_stored_profile_that_was_changed_is_refused(client: TestClient, service: Service) -> None:
    """Whoever has changed it under its id, beside the service, gets no plan from it."""
    stored = client.post("/v1/profiles", json=documents()["profiles"]).json()
    with service.database.writing() as session:
        row = session.get(StoredDocument, (DocumentKind.PROFILE, stored["id"]))
        assert row is not None
        changed = copy.deepcopy(stored["document"])
        changed["timings"]["types"][0]["points"][0]["forward_s"] *= 2
        row.document = changed
    refused = client.post("/v1/plans", json=TINY | {"model": {"profile": stored["id"]}})
    assert refused.status_code == 422
    assert "was changed, or is another one" in refused.json()["detail"]


def test_a_profile_that_is_not_there_is_refused(client: TestClient) -> None:
    """422 that says where to post it."""
    refused = client.post("/v1/plans", json=TINY | {"model": {"profile": "f" * 64}})
    assert refused.status_code == 422
    assert "/v1/profiles" in refused.json()["detail"]
