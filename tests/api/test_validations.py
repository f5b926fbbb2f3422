"""Does a request hear what is wrong with it before it is asked, in the words that asking would use?"""

from typing import Any

import pytest
from starlette.testclient import TestClient

from api.service import Service
from tests.api.conftest import BERT, NO_FIT, TINY, connect
from tests.api.life.pool import MEASURED, Pool
from tests.system.browsing import CONFIG

WRONG: list[Any] = [
    [],
    {},
    BERT | {"devices": 0},
    BERT | {"devices": 100_000},
    BERT | {"depth": 64},
    BERT | {"width": 3, "depth": 4, "mini_batch_size": 512},
    BERT | {"mini_batch_size": 7, "depth": 4, "width": 4},
    BERT | {"model": "bert-49"},
    BERT | {"model": {"config": CONFIG}},
    BERT | {"model": {"config": {"model_type": "nobody-knows"}}, "sequence_length": 8},
    BERT | {"model": {"profile": "0" * 64}},
    BERT | {"calibration": "0" * 64},
    BERT | {"compression": "zip"},
    BERT | {"why": "depth"},
    BERT | {"name": ""},
    BERT | {"colour": "blue"},
    MEASURED,
    MEASURED | {"refine": {"trials": 0}},
]


@pytest.mark.parametrize("body", WRONG, ids=str)
def test_what_a_study_refuses_is_refused_in_the_same_words(sqlite_client: TestClient, body: Any) -> None:
    """Status, title and detail; nothing is kept of it."""
    answers = [sqlite_client.post(path, json=body) for path in ("/v1/validations", "/v1/studies")]
    assert answers[0].status_code == answers[1].status_code == 422
    assert answers[0].json() == answers[1].json()
    assert sqlite_client.get("/v1/studies").json()["items"] == []


def test_what_can_be_asked_is_described(sqlite_client: TestClient) -> None:
    """The model and what it would run on, also where nothing would fit; nothing is kept."""
    told = sqlite_client.post("/v1/validations", json=NO_FIT | {"name": "tonight"}).json()
    assert told["answered"] == "at_once"
    assert told["measures"] == []
    assert (told["model"]["name"], told["model"]["blocks"]) == ("llama-3-70b", 80)
    assert (told["cluster"], told["accelerator"]) == ("dgx-h100", "h100-80gb")
    config = TINY | {"model": {"config": CONFIG, "name": "mine"}, "sequence_length": 128}
    assert sqlite_client.post("/v1/validations", json=config).json()["model"]["name"] == "mine"
    assert sqlite_client.get("/v1/studies").json()["items"] == []


def test_what_is_measured_first_is_told(sqlite_service: Service) -> None:
    """Trials need layers and links; what was measured once is not measured again."""
    pool = Pool(sqlite_service)
    pool.connect()
    client = connect(sqlite_service)
    told = client.post("/v1/validations", json=MEASURED).json()
    assert told["answered"] == "after_measuring"
    assert told["measures"] == ["trial", "profile_model", "profile_links"]
    client.post("/v1/studies", json=MEASURED)
    pool.work()
    assert client.post("/v1/validations", json=MEASURED).json()["measures"] == ["trial"]
