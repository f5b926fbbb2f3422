"""Does POST /v1/plans answer as the command line does, and store nothing?"""

from typing import Any

import pytest
from starlette.testclient import TestClient

from profiles import library
from profiles.json_text import canonical_json
from tests.api.conftest import BERT, NO_FIT, TINY
from tests.api.life.pool import LINK
from tuner.planning import answer
from tuner.request import read_request

LLAMA: dict[str, Any] = {
    "cluster": "dgx-h100",
    "devices": 64,
    "mini_batch_size": 512,
    "sequence_length": 8192,
    "precision": "bfloat16",
    "optimizer": "adam",
}


def test_the_answer_is_the_tuners_plan_and_the_time_it_took(sqlite_client: TestClient) -> None:
    """Byte for byte the plan that the tuner makes of the same options, with search_s beside it."""
    answered = sqlite_client.post("/v1/plans", json=BERT)
    assert answered.status_code == 200
    plan = answered.json()
    assert 0 < plan.pop("search_s") < 5
    assert canonical_json(plan) == answer(read_request(BERT), library).to_json()


def test_nothing_is_stored(client: TestClient) -> None:
    """A plan leaves no study behind."""
    assert client.post("/v1/plans", json=BERT).status_code == 200
    assert client.get("/v1/studies").json() == {"items": [], "next": None}


def test_the_papers_choice_comes_out_over_rest(sqlite_client: TestClient) -> None:
    """bert-48 on 32 nodes of Piz Daint: W=8, D=4, B=8 without recomputation (Li and Hoefler, SC'21)."""
    plan = sqlite_client.post("/v1/plans", json=BERT | {"schedules": "chimera", "search": "greedy"}).json()
    chosen = plan["chosen"]
    assert (chosen["width"], chosen["depth"], chosen["micro_batch_size"]) == (8, 4, 8)
    assert chosen["recompute"] == "none"


def test_a_config_answers_without_torch_or_a_worker(sqlite_client: TestClient) -> None:
    """A Hugging Face configuration in the body is as good as the preset of the same model."""
    config = library.load_model_preset("llama-3-8b").config
    plan = sqlite_client.post("/v1/plans", json=LLAMA | {"model": {"config": config}}).json()
    preset = sqlite_client.post("/v1/plans", json=LLAMA | {"model": "llama-3-8b"}).json()
    assert plan["search_s"] > 0
    assert plan["model"]["parameters"] == preset["model"]["parameters"]
    assert plan["chosen"] == preset["chosen"]


def test_other_names_of_the_options_are_read(sqlite_client: TestClient) -> None:
    """Megatron's words mean the same."""
    words = {"global_batch_size": 512, "pipeline_parallel_size": 8, "data_parallel_size": 4}
    request = {name: value for name, value in BERT.items() if name != "mini_batch_size"} | words
    chosen = sqlite_client.post("/v1/plans", json=request).json()["chosen"]
    assert (chosen["width"], chosen["depth"]) == (4, 8)


def test_that_nothing_fits_is_an_answer(sqlite_client: TestClient) -> None:
    """200, nothing chosen, and the smallest change that would help."""
    answered = sqlite_client.post("/v1/plans", json=NO_FIT)
    assert answered.status_code == 200
    assert answered.json()["chosen"] is None
    assert answered.json()["smallest_change"]["change"]


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "application/vnd.chimera+json", None])
def test_json_is_read_under_its_names(sqlite_client: TestClient, kind: str | None) -> None:
    """Parameters, suffixes and a missing declaration do not matter."""
    headers = {} if kind is None else {"Content-Type": kind}
    answered = sqlite_client.post("/v1/plans", content=canonical_json(BERT), headers=headers)
    assert answered.status_code == 200


def test_a_cluster_of_measured_links_is_taken_as_it_was_measured(sqlite_client: TestClient) -> None:
    """With the points of the fit, which `chimera links` writes."""
    cluster = library.load_cluster("local-cpu").model_dump(mode="json", exclude_none=True)
    cluster["node"]["link"] = LINK
    answered = sqlite_client.post("/v1/plans", json=TINY | {"cluster": {"document": cluster}})
    assert answered.status_code == 200, answered.text
    assert answered.json()["chosen"]
