"""How are studies asked for, followed and read from afar?"""

from collections.abc import Mapping
from typing import Any

import httpx

from profiles.document import canonical_json
from profiles.timings import Profile
from tuner.client import ANSWER_S, ServiceClient, foreign
from tuner.errors import RequestError
from tuner.messages import MAX_WAIT_S

FINAL = frozenset({"done", "failed", "cancelled"})
"""Where studies end."""
LATEST = "latest"
"""What may stand for the id of the newest study."""

Study = dict[str, Any]
"""The document, with whatever keys the service's release gives it."""


class StudyCalls:
    """The studies of one service; raises CallErrors like its client."""

    def __init__(self, client: ServiceClient, *, answer_s: float = ANSWER_S) -> None:
        """`answer_s` is how long one answer may take beside what the service is asked to wait."""
        self._client = client
        self._answer_s = answer_s

    @property
    def url(self) -> str:
        """Where the service is."""
        return self._client.url

    def submit(
        self, body: Mapping[str, Any], *, wait_s: float = 0.0, idempotency_key: str | None = None
    ) -> Study:
        """Make a study, waiting up to `wait_s` seconds for its answer; the same key makes the same study."""
        wait_s = min(wait_s, MAX_WAIT_S)
        answer = self._client.call(
            "POST",
            "/v1/studies",
            body=dict(body),
            params={"wait": wait_s} if wait_s else None,
            answer_s=self._answer_s + wait_s,
            idempotency_key=idempotency_key,
        )
        return self._study(answer)

    def read(self, identifier: str, *, wait_s: float = 0.0) -> Study:
        """A study, once it ends or `wait_s` seconds are over."""
        wait_s = min(wait_s, MAX_WAIT_S)
        params = {"wait": wait_s} if wait_s else None
        return self._study(self._get(self._path(identifier), params=params, wait_s=wait_s))

    def report(self, identifier: str) -> str:
        """The report as one HTML file."""
        return self._get(f"{self._path(identifier)}/report").text

    def export(self, identifier: str, format: str) -> tuple[str, str]:
        """The choice in a format, and its media type."""
        answer = self._get(f"{self._path(identifier)}/export/{format}")
        return answer.text, answer.headers.get("content-type", "").partition(";")[0]

    def cancel(self, identifier: str) -> Study:
        """Stop a study and its jobs."""
        path = f"{self._path(identifier)}/cancel"
        return self._study(self._client.call("POST", path, answer_s=self._answer_s))

    def keep_profile(self, profile: Profile) -> str:
        """Store a profile, and give the id that a request names it by."""
        document = profile.model_dump(mode="json", exclude_none=True)
        answer = self._client.call("POST", "/v1/profiles", body=document, answer_s=self._answer_s)
        return str(read_object(answer, "id")["id"])

    def _path(self, identifier: str) -> str:
        if identifier == LATEST:
            page = read_object(self._get("/v1/studies", params={"limit": 1}), "items")
            if not page["items"]:
                raise RequestError(f"the service at {self._client.url} holds no study yet: submit one")
            identifier = str(page["items"][0]["id"])
        if not (identifier.isascii() and identifier.isalnum()):
            raise RequestError(f"{identifier[:60]!r} is no id of a study: `chimera submit` tells it")
        return f"/v1/studies/{identifier}"

    def _get(
        self, path: str, *, params: Mapping[str, Any] | None = None, wait_s: float = 0.0
    ) -> httpx.Response:
        return self._client.call("GET", path, params=params, answer_s=self._answer_s + wait_s)

    def _study(self, answer: httpx.Response) -> Study:
        return read_object(answer, "id", "status")


def read_object(answer: httpx.Response, *keys: str) -> dict[str, Any]:
    """The JSON object that holds these keys; raises UnreachableError for any other answer."""
    try:
        value = answer.json()
    except ValueError:
        value = None
    if not isinstance(value, dict) or not set(keys) <= value.keys():
        raise foreign(answer)
    return value


def study_text(study: Study) -> str:
    """The document as canonical JSON."""
    return canonical_json(study)
