"""Does a request with an Idempotency-Key have its effect once, whatever happens?"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import pytest
from sqlalchemy import func, select
from starlette.testclient import TestClient

from api.service import Service
from api.storage.tables import IdempotencyKey, Study
from api.web.idempotency import LEASE, Once
from api.web.problems import ConflictProblem, InvalidProblem
from tests.api.conftest import TINY, Clock, connect


def post(client: TestClient, key: str, **options: Any) -> Any:
    """Post a study under a key."""
    return client.post("/v1/studies", json=TINY | options, headers={"Idempotency-Key": key})


def count(service: Service, table: type[Study] | type[IdempotencyKey]) -> int:
    """How many rows a table has."""
    with service.database.reading() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def test_the_same_request_gets_the_first_answer_again(client: TestClient, service: Service) -> None:
    """Same status, body and Location, also after the study was deleted; it says that it is a repetition."""
    first = post(client, "one")
    client.delete(f"/v1/studies/{first.json()['id']}")
    again = post(client, "one")
    assert (again.status_code, again.json()) == (first.status_code, first.json())
    assert again.headers["location"] == first.headers["location"]
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert count(service, Study) == 0


def test_another_request_with_the_key_is_refused(client: TestClient, service: Service) -> None:
    """422 for another body, and for another address."""
    assert post(client, "two").status_code == 201
    refused = post(client, "two", devices=1)
    assert refused.status_code == 422
    assert "use a new key" in refused.json()["detail"]
    headers = {"Idempotency-Key": "two"}
    assert client.post("/v1/clusters", json=TINY, headers=headers).status_code == 422
    assert count(service, Study) == 1


def test_a_refused_request_does_not_use_its_key_up(client: TestClient) -> None:
    """After a 422 the corrected request may carry the same key."""
    assert post(client, "three", model="no-such-model").status_code == 422
    assert post(client, "three").status_code == 201


def test_many_at_once_make_one_study(client: TestClient, service: Service) -> None:
    """64 posts with one key: one study; the others hear the same answer, or 409 with Retry-After."""
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: post(client, "many"), range(64)))
    made = {answer.json()["id"] for answer in answers if answer.status_code == 201}
    assert len(made) == 1
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert all(answer.headers["retry-after"] == "1" for answer in answers if answer.status_code == 409)
    assert count(service, Study) == 1
    assert post(client, "many").json()["id"] in made


def test_while_the_first_is_at_work_a_repetition_is_told_to_come_back(service: Service) -> None:
    """409 with Retry-After."""
    once = Once(service, "someone", "key", "print")

    def work() -> NoReturn:
        with pytest.raises(ConflictProblem) as told:
            once.answer(lambda: None, lambda _session, _made: pytest.fail("made twice"))
        assert told.value.headers == {"Retry-After": "1"}
        raise InterruptedError

    with pytest.raises(InterruptedError):
        once.answer(work, lambda _session, _made: pytest.fail("nothing was made"))
    assert count(service, IdempotencyKey) == 0


def test_a_request_whose_process_died_can_be_repeated_after_the_lease(
    service: Service, clock: Clock, client: TestClient
) -> None:
    """A reservation that nobody will ever complete holds for a minute, then the repetition takes over."""
    assert post(client, "dead").status_code == 201
    with service.database.writing() as session:
        row = session.scalars(select(IdempotencyKey)).one()
        row.status, row.body, row.headers = None, None, None
    assert post(client, "dead").status_code == 409
    clock.forward(seconds=LEASE.total_seconds() + 1)
    assert post(client, "dead").status_code == 201


def test_who_lost_the_reservation_stores_nothing(service: Service, clock: Clock, client: TestClient) -> None:
    """A request slower than its lease finds that a repetition answered, and rolls its study back."""
    once = Once(service, "local", "slow", "print")
    quick = Once(service, "local", "slow", "print")

    def work() -> None:
        clock.forward(seconds=LEASE.total_seconds() + 1)
        quick.answer(lambda: None, lambda _session, _made: _answered(client))

    with pytest.raises(ConflictProblem, match="took over"):
        once.answer(work, lambda session, _made: (session.add(_study(clock)), _answered(client))[1])
    assert count(service, Study) == 0


def test_keys_are_forgotten_after_a_day(client: TestClient, service: Service, clock: Clock) -> None:
    """Then the same key makes a new study, and the old row is gone."""
    first = post(client, "daily").json()["id"]
    clock.forward(hours=23.9)
    assert post(client, "daily").json()["id"] == first
    clock.forward(hours=0.2)
    assert post(client, "daily").json()["id"] != first
    assert count(service, IdempotencyKey) == 1


def test_another_owner_never_sees_an_answer(service: Service) -> None:
    """The key is the owner's own."""
    answer = _answered(connect(service))
    for owner in ("one", "other"):
        assert Once(service, owner, "shared", owner).answer(lambda: None, lambda _s, _m: answer) == answer
    with pytest.raises(InvalidProblem):
        Once(service, "one", "shared", "other").answer(lambda: None, lambda _s, _m: answer)


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\there", "ümlaut".encode("latin-1")])
def test_a_key_is_a_short_line_of_ascii(client: TestClient, key: str | bytes) -> None:
    """Anything else is refused."""
    refused = client.post("/v1/studies", json=TINY, headers={b"idempotency-key": key})  # type: ignore[dict-item]
    assert refused.status_code == 422


def _answered(_: TestClient) -> Any:
    from api.web.idempotency import Answer

    return Answer(201, {"id": "made"})


def _study(clock: Clock) -> Study:
    from api.storage.identifiers import new_identifier
    from api.storage.tables import StudyStatus

    return Study(
        id=new_identifier(clock()), name=None, created_by="local", status=StudyStatus.DONE, waiting_for=None,
        model="m", cluster="c", devices=1, mini_batch_size=1, answer=None, request={}, plan=None,
        created_at=clock(), updated_at=clock(),
    )  # fmt: skip
