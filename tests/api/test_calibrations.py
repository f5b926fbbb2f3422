"""Do plans use what an admin let measurements teach, and only that?"""

from typing import Any

import pytest
from starlette.testclient import TestClient

from api.documents import calibrations
from api.service import Service
from api.storage.tables import DocumentKind, StoredDocument
from profiles import library
from profiles.calibration import Calibration
from tests.api.conftest import BERT
from tests.api.work.factories import client_with
from tests.tuner.measured import make_measurement, measured_as, truth
from tuner.calibration import calibrate


def measured(*, compute_factor: float = 1.2) -> dict[str, Any]:
    """Three runs, as their document is posted."""
    rows = [make_measurement(schedule=schedule) for schedule in ("gpipe", "dapple", "chimera")]
    document = measured_as(rows, truth(compute_factor=compute_factor))
    return document.model_dump(mode="json", exclude_none=True)


@pytest.fixture
def admin(service: Service) -> TestClient:
    """A client that may do everything, on each database."""
    return client_with(service, "admin", owner="root")


@pytest.fixture
def submitter(service: Service) -> TestClient:
    """A client that may read and submit."""
    return client_with(service, "submit")


@pytest.fixture
def fitted(admin: TestClient, submitter: TestClient) -> dict[str, Any]:
    """What an admin fitted on measurements that a submitter posted."""
    posted = submitter.post("/v1/measurements", json=measured()).json()
    answered = admin.post("/v1/calibrations/fit", json={"measurements": [posted["id"]]})
    assert answered.status_code == 201, answered.text
    found: dict[str, Any] = answered.json()
    assert found["document"]["fitted_on"] == [posted["id"]]
    return found


def test_plans_and_studies_use_the_calibration_that_they_name(
    submitter: TestClient, fitted: dict[str, Any]
) -> None:
    """They pin it by its content, have an error bar, and the timeline takes as long as the plan says."""
    plain = submitter.post("/v1/plans", json=BERT).json()
    asked = BERT | {"calibration": fitted["id"]}
    plan = submitter.post("/v1/plans", json=asked).json()
    assert plan["provenance"]["hashes"]["calibration"] == fitted["id"]
    assert plan["chosen"]["predicted"]["error_bar"]["coverage"] == fitted["document"]["level"]
    assert plain["chosen"]["predicted"]["error_bar"] is None
    assert plan["chosen"]["predicted"]["iteration_s"] != plain["chosen"]["predicted"]["iteration_s"]
    study = submitter.post("/v1/studies", json=asked).json()
    assert study["plan"]["chosen"] == plan["chosen"]
    timeline = submitter.get(study["links"]["timeline"]).json()
    assert timeline["makespan"] == pytest.approx(plan["chosen"]["predicted"]["iteration_s"], rel=1e-12)


def test_only_an_admin_lets_measurements_calibrate(submitter: TestClient, fitted: dict[str, Any]) -> None:
    """Neither fits nor stores a calibration; both are listed for all to read."""
    for path, body in (("/fit", {"measurements": ["chimera-sc21"]}), ("", fitted["document"])):
        refused = submitter.post(f"/v1/calibrations{path}", json=body)
        assert refused.status_code == 403
        assert "scope admin" in refused.json()["detail"]
    (entry,) = submitter.get("/v1/calibrations").json()["items"]
    assert entry["id"] == fitted["id"]
    assert entry["name"].startswith("piz-daint, all models: 3 measurements, ")
    assert submitter.get(entry["links"]["self"]).json() == fitted


def test_the_same_calibration_is_kept_once(admin: TestClient, fitted: dict[str, Any]) -> None:
    """Fitted again, or posted as a document: 200 with the id it has."""
    again = admin.post("/v1/calibrations/fit", json={"measurements": fitted["document"]["fitted_on"]})
    posted = admin.post("/v1/calibrations", json=fitted["document"])
    assert [(each.status_code, each.json()["id"]) for each in (again, posted)] == [(200, fitted["id"])] * 2


def test_a_calibration_fitted_elsewhere_needs_its_measurements_here(admin: TestClient) -> None:
    """So that what a plan rests on can be read; what ships with the package is known."""
    elsewhere = calibrate([measured_as([make_measurement()], truth())], library)
    refused = admin.post("/v1/calibrations", json=elsewhere.model_dump(mode="json", exclude_none=True))
    assert refused.status_code == 422
    assert elsewhere.fitted_on[0] in refused.json()["detail"]
    assert "/v1/measurements" in refused.json()["detail"]
    shipped = library.load_measurements("vtrain-a100").fingerprint()
    known = Calibration.model_validate(elsewhere.model_copy(update={"fitted_on": (shipped,)}).model_dump())
    kept = admin.post("/v1/calibrations", json=known.model_dump(mode="json", exclude_none=True))
    assert kept.status_code == 201


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/fit", {"measurements": ["f" * 64]}, "/v1/measurements"),
        ("/fit", {"measurements": []}, "measurements"),
        ("/fit", {"measurement": ["chimera-sc21"]}, "measurement"),
        ("/fit", {"measurements": ["chimera-sc21"], "profiles": ["f" * 64]}, "/v1/profiles"),
        ("/fit", [], "the request"),
        ("", {"schema_version": 1}, "fitted_on"),
    ],
)
def test_what_cannot_be_fitted_is_refused(admin: TestClient, path: str, body: Any, told: str) -> None:
    """422 that names it."""
    refused = admin.post(f"/v1/calibrations{path}", json=body)
    assert refused.status_code == 422
    assert told in refused.json()["detail"]


def test_measurements_without_times_teach_nothing(admin: TestClient) -> None:
    """422 that says what is missing."""
    nothing = {"iteration_s": None, "peak_memory_gb": {"max": 3.0}}
    document = measured()
    document["measurements"] = [{**row, **nothing} for row in document["measurements"]]
    posted = admin.post("/v1/measurements", json=document).json()
    refused = admin.post("/v1/calibrations/fit", json={"measurements": [posted["id"]]})
    assert refused.status_code == 422
    assert "at least one with iteration_s" in refused.json()["detail"]


def test_more_measurements_than_a_service_fits_are_refused(
    admin: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the command that fits them elsewhere."""
    monkeypatch.setattr(calibrations, "MOST_ROWS", 2)
    refused = admin.post("/v1/calibrations/fit", json={"measurements": ["chimera-sc21"]})
    assert refused.status_code == 422
    assert "--save-calibration" in refused.json()["detail"]


def test_a_plan_needs_a_calibration_that_is_there_unchanged_and_of_its_cluster(
    service: Service, submitter: TestClient, fitted: dict[str, Any]
) -> None:
    """422 that says which of the three is wrong."""
    unknown = submitter.post("/v1/plans", json=BERT | {"calibration": "f" * 64})
    other = submitter.post(
        "/v1/plans", json=BERT | {"cluster": "dgx-h100", "precision": "bfloat16", "calibration": fitted["id"]}
    )
    with service.database.writing() as session:
        row = session.get(StoredDocument, (DocumentKind.CALIBRATION, fitted["id"]))
        assert row is not None
        row.document = {**row.document, "level": 0.5}
    changed = submitter.post("/v1/plans", json=BERT | {"calibration": fitted["id"]})
    assert [answered.status_code for answered in (unknown, other, changed)] == [422] * 3
    assert "under /v1/calibrations" in unknown.json()["detail"]
    assert "made on piz-daint" in other.json()["detail"]
    assert "it was changed" in changed.json()["detail"]
