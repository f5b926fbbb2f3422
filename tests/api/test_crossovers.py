"""Does the service predict what studies gain that share their devices?"""

import pytest
from starlette.testclient import TestClient

from tests.api.conftest import BERT


def test_studies_share_their_devices(client: TestClient) -> None:
    """One study twice is two equal jobs; what cannot share or is not there is refused."""
    chimera = client.post("/v1/studies", json=BERT | {"schedules": ["chimera"]}).json()["id"]
    pinned = client.post("/v1/studies", json=BERT | {"width": 4, "depth": 8}).json()["id"]
    found = client.post("/v1/crossovers", json={"studies": [chimera, chimera]})
    assert found.status_code == 200, found.text
    document = found.json()
    assert 1 < document["predicted_speedup"] <= 2
    assert document["sequential_s"] == pytest.approx(2 * document["jobs"][0]["iteration_s"])
    assert not document["memory"]["fits"]
    refused = client.post("/v1/crossovers", json={"studies": [chimera, pinned]})
    assert (refused.status_code, "W=8 x D=4" in refused.json()["detail"]) == (422, True)
    assert client.post("/v1/crossovers", json={"studies": [chimera, "nothing"]}).status_code == 404
    assert client.post("/v1/crossovers", json={"studies": [chimera]}).status_code == 422
    assert client.post("/v1/crossovers", json=[]).status_code == 422


def test_a_study_without_a_choice_has_no_job_to_share(client: TestClient) -> None:
    """Nothing fits, so there is nothing to run in turns: 422 with that sentence."""
    nothing = client.post("/v1/studies", json=BERT | {"devices": 1, "model": "gpt2-64"}).json()["id"]
    refused = client.post("/v1/crossovers", json={"studies": [nothing, nothing]})
    assert (refused.status_code, "nothing fits" in refused.json()["detail"]) == (422, True)
