"""Does every address let in whom it should, in every way one can knock, and nobody else?"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.testclient import TestClient

from api.access.keys import Scope
from api.access.sessions import COOKIE, begin_session, csrf_token
from api.service import Service, now
from api.settings import Settings
from api.storage.database import open_database
from api.storage.tables import ApiKey
from tests.api.access.matrix import BODILESS, FORMS, HOLDERS, OWNED, ROWS, SAFE, Things, operations
from tests.api.conftest import connect
from tests.api.work.factories import make_key

NOBODIES = ("nobody", "wrong", "revoked")
EVIL = {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}


@dataclass
class Gate:
    """A service that has keys, and the secrets of who knocks."""

    client: TestClient
    things: Things
    secrets: dict[str, str]
    cookies: dict[str, str]

    def ask(self, operation: str, who: str = "", *, owner: str = "alice", **options: Any) -> int:
        """The status of a request with the body {}, by the key of `who`."""
        headers = {"Authorization": f"Bearer {self.secrets[who]}"} if who in self.secrets else {}
        return self.send(operation, owner=owner, headers=headers | options.pop("headers", {}), **options)

    def ask_signed_in(self, operation: str, who: str, *, token: bool, **options: Any) -> int:
        """The same by the session of `who`, with or without the token of its pages."""
        cookie = self.cookies[who]
        headers = {"Cookie": f"{COOKIE}={cookie}"} | ({"X-CSRF-Token": csrf_token(cookie)} if token else {})
        return self.send(operation, headers=headers | options.pop("headers", {}), **options)

    def send(self, operation: str, *, owner: str = "alice", headers: dict[str, str], **options: Any) -> int:
        """The status, wherever it leads."""
        method, address = operation.partition(" ")[0], self.things.address(operation, owner=owner)
        body: dict[str, Any] = {} if method != "POST" or "content" in options else {"json": {}}
        answer = self.client.request(
            method, address, headers=headers, follow_redirects=False, **body, **options
        )
        return answer.status_code


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """One gate for all: each request is about things of its own."""
    url = f"sqlite:///{tmp_path_factory.mktemp('gate')}/chimera.db"
    service = Service(Settings(database_url=url, work_in="threads"), open_database(url))
    client = connect(service)
    made = {scope.value: make_key(service, scope) for scope in Scope}
    secrets = {name: secret for name, (_, secret) in made.items()}
    cookies = {}
    with service.database.writing() as session:
        for name, (identifier, _) in made.items():
            key = session.get(ApiKey, identifier)
            assert key is not None
            cookies[name] = begin_session(session, key, now=now(), hours=1)
    identifier, secrets["revoked"] = make_key(service, "admin")
    admin = {"Authorization": f"Bearer {secrets['admin']}"}
    assert client.delete(f"/v1/keys/{identifier}", headers=admin).status_code == 204
    # One loop for all requests: a new one for each takes longer than most answers.
    with client:
        yield Gate(client, Things(service), secrets | {"wrong": "chimera_" + "x" * 43}, cookies)


@pytest.fixture(scope="module")
def open_gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """One without keys."""
    url = f"sqlite:///{tmp_path_factory.mktemp('open')}/chimera.db"
    service = Service(Settings(database_url=url, work_in="threads"), open_database(url))
    with connect(service) as client:
        yield Gate(client, Things(service), {}, {})


def test_every_address_has_a_row(gate: Gate) -> None:
    """A new one is written down with whom it lets in: tests/api/access/matrix.py."""
    assert operations(gate.client.app) == set(ROWS)  # type: ignore[arg-type]


@pytest.mark.parametrize("operation", sorted(ROWS))
def test_each_caller_gets_the_documented_status(gate: Gate, operation: str) -> None:
    """By a key and by the session of that key; what belongs to others is refused to all but an admin."""
    needed, allowed = ROWS[operation]
    for who in NOBODIES:
        assert gate.ask(operation, who) == (allowed if needed is None else 401), who
    for scope in Scope:
        expected = allowed if needed is None or scope in HOLDERS[needed] else 403
        assert gate.ask(operation, scope) == expected, scope
        foreign = 403 if operation in OWNED and scope != Scope.ADMIN else expected
        assert gate.ask(operation, scope, owner="bob") == foreign, scope
        seen = {"GET /login": 303, "POST /logout": 415}.get(operation, expected)
        assert gate.ask_signed_in(operation, scope, token=True) == seen, scope


@pytest.mark.parametrize("operation", sorted(each for each in ROWS if not each.startswith(SAFE)))
def test_what_pages_of_others_make_browsers_send_changes_nothing(gate: Gate, operation: str) -> None:
    """A form, text, a session without its token, another Origin: also where an admin is signed in."""
    _, allowed = ROWS[operation]
    for kind in ("application/x-www-form-urlencoded", "text/plain"):
        form: dict[str, Any] = {"content": b"a=b", "headers": {"Content-Type": kind}}
        taken = FORMS.get(operation) if kind.endswith("urlencoded") else None
        expected = taken or (allowed if operation in BODILESS else 415)
        assert gate.ask(operation, "admin", **form) == expected, kind
        form["headers"] = form["headers"] | EVIL
        assert gate.ask_signed_in(operation, "admin", token=False, **form) == 403, kind
    assert gate.ask(operation, "admin", headers=EVIL) == 403
    assert gate.ask_signed_in(operation, "admin", token=True, headers=EVIL) == 403
    if operation not in FORMS:
        assert gate.ask_signed_in(operation, "admin", token=False) == 403


@pytest.mark.parametrize("operation", sorted(ROWS))
def test_no_address_answers_under_a_foreign_name(gate: Gate, operation: str) -> None:
    """Whoever asks: a name that was pointed at this host could be anybody's."""
    for who in ("nobody", "admin"):
        assert gate.ask(operation, who, headers={"Host": "evil.example"}) == 403


@pytest.mark.parametrize("operation", sorted(each for each in ROWS if each.startswith("GET ")))
def test_a_person_without_a_session_is_asked_to_sign_in(gate: Gate, operation: str) -> None:
    """On pages; what programs read stays 401."""
    needed, allowed = ROWS[operation]
    expected = allowed if needed is None else 401 if " /v1" in operation else 303
    assert gate.ask(operation, headers={"Accept": "text/html"}) == expected


@pytest.mark.parametrize("operation", sorted(ROWS))
def test_without_keys_this_host_may_read_and_submit(open_gate: Gate, operation: str) -> None:
    """Work and what is for admins needs a key all the same."""
    needed, allowed = ROWS[operation]
    expected = 401 if needed in {Scope.WORK, Scope.ADMIN} else allowed
    assert open_gate.ask(operation, owner="local") == expected
