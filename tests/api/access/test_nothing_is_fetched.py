"""Does the service leave alone what a request names: files, modules, addresses?"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from api.service import Service
from api.settings import Settings
from api.storage.database import open_database
from profiles import library
from tests.api.conftest import TINY, connect
from tests.api.life import pool
from tuner.assignments import ProfileJobRequest
from tuner.request import PlanRequest

CANARY = "canary4711"
CONFIG = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 100, "max_position_embeddings": 128,
    "architectures": ["A"], "auto_map": {"AutoModel": "m"}, "_name_or_path": "n",
}  # fmt: skip
EVERY = {"/v1/plans": 9, "/v1/studies": 9, "/v1/validations": 2, "/v1/profiles": 3}
"""Not every bait is laid for bodies with many places: one reader serves the first three."""
_heard: list[str] = []
_listening = False


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    """Python tells of every file that is opened, module that is imported and address that is connected to."""
    if _listening and CANARY in repr(arguments) and not event.startswith(("sqlite3.", "object.", "compile")):
        _heard.append(f"{event} {arguments!r}"[:300])


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, baits: list[str]) -> Iterator[TestClient]:
    """A service, and an ear on everything that its process does once the baits are laid."""
    assert baits
    global _listening  # noqa: PLW0603  # hooks cannot be taken away, only told to be quiet
    url = f"sqlite:///{tmp_path_factory.mktemp('service')}/chimera.db"
    with connect(
        Service(Settings(database_url=url, work_in="threads", rate_burst=100_000), open_database(url))
    ) as made:
        sys.addaudithook(_listen)
        _listening = True
        yield made
        _listening = False


@pytest.fixture(scope="module")
def baits(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Names of things that are there: a config.json, its folder, a module; and of some that are elsewhere."""
    folder = tmp_path_factory.mktemp(CANARY)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / f"{CANARY}.py").write_text("def factory():\n    raise SystemExit\n")
    return [
        str(folder),
        f"{folder}/config.json",
        f"file://{folder}/config.json",
        f"{'../' * 12}{folder}/config.json",
        f"{CANARY}:factory",
        f"{folder}/{CANARY}.py:factory",
        f"http://127.0.0.1:9/{CANARY}",
        f"\\\\127.0.0.1\\{CANARY}",
        f"{CANARY}/bert",
        f"!!python/object/apply:os.system ['touch {CANARY}']",
    ]


def replaced(value: Any, bait: str) -> Iterator[Any]:
    """The document with the bait in the place of each of its strings, and as a key of each of its objects."""
    if isinstance(value, str):
        yield bait
    elif isinstance(value, dict):
        yield value | {bait: bait}
        for name, part in value.items():
            for changed in replaced(part, bait):
                yield value | {name: changed}
    elif isinstance(value, list) and value:
        for changed in replaced(value[0], bait):
            yield [changed, *value[1:]]


def bodies(address: str) -> Iterator[dict[str, Any]]:
    """Requests with a string wherever one could be."""
    inline = {key: value for key, value in TINY.items() if key != "model"} | {"sequence_length": 128}
    match address:
        case "/v1/plans" | "/v1/studies" | "/v1/validations":
            yield dict.fromkeys(PlanRequest.model_fields, "")
            yield TINY | dict.fromkeys(set(PlanRequest.model_fields) - set(TINY), "")
            yield inline | {"model": {"config": CONFIG, "name": "a"}}
            yield inline | {"model": {"profile": "a"}}
            yield TINY | {"cluster": library.load_cluster("local-cpu").model_dump(mode="json")}
        case "/v1/profile-jobs":
            yield dict.fromkeys(ProfileJobRequest.model_fields, "")
            yield {"model": {"config": CONFIG, "sequence_length": 128}, "micro_batch_sizes": [1]}
        case "/v1/clusters":
            yield library.load_cluster("dgx-a100").model_dump(mode="json")
        case "/v1/profiles":
            yield pool.profile()
        case "/v1/crossovers":
            yield {"studies": ["a", "b"]}


@pytest.mark.parametrize(
    "address",
    [
        "/v1/plans", "/v1/studies", "/v1/validations", "/v1/profile-jobs", "/v1/clusters", "/v1/profiles",
        "/v1/crossovers",
    ],
)  # fmt: skip
def test_no_body_makes_the_service_fetch_anything(client: TestClient, baits: list[str], address: str) -> None:
    """A path, a module with a factory or an address, in every string of a request: it stays a string."""
    asked = 0
    for bait in baits[1 :: EVERY.get(address, 1)]:
        for body in bodies(address):
            for changed in replaced(body, bait):
                answer = client.post(address, json=changed)
                assert answer.status_code < 500, (changed, answer.text)
                assert _heard == [], changed
                asked += 1
    assert asked >= 10


def test_no_address_makes_the_service_fetch_anything(client: TestClient, baits: list[str]) -> None:
    """In every place of a path, and in every filter."""
    from urllib.parse import quote

    places = (
        "/v1/studies/{}", "/v1/studies/x/export/{}", "/v1/profiles/{}", "/v1/jobs/x/attachments/1/{}",
        "/assets/{}/style.css", "/assets/x/{}", "/profiles/{}", "/clusters/{}", "/models/{}/history",
        "/v1/studies?model={}", "/v1/studies?cursor={}", "/v1/jobs?pool={}", "/compare?ids={}", "/?name={}",
        "/login?next={}", "/studies/{}", "/v1/studies/x/{}.csv",
    )  # fmt: skip
    for bait in baits:
        for place in places:
            for name in (quote(bait), quote(bait, safe="")):
                answer = client.get(place.format(name))
                assert answer.status_code < 500, place
                assert _heard == [], place


@pytest.mark.usefixtures("client")
def test_the_ear_hears() -> None:
    """Else nothing would be proved."""
    with pytest.raises(FileNotFoundError):
        Path(f"/nowhere/{CANARY}").read_text()
    assert _heard
    _heard.clear()
