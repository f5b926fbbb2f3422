"""How are checks of models kept in a service, and the last accepted one found again?"""

from profiles.timings import Profile
from tuner.client import ANSWER_S, ServiceClient
from tuner.client_errors import UnreachableError
from tuner.regressions.check import Check
from tuner.regressions.records import ModelRecord
from tuner.study_calls import read_object


class CheckCalls:
    """The checks of one service; raises CallErrors like its client."""

    def __init__(self, client: ServiceClient, *, answer_s: float = ANSWER_S) -> None:
        """`answer_s` is how long one answer may take."""
        self._client = client
        self._answer_s = answer_s

    def keep(self, check: Check) -> str:
        """Store a check, whose profile is there already, and give its id."""
        document = check.model_dump(mode="json", exclude_none=True)
        answer = self._client.call("POST", "/v1/checks", body=document, answer_s=self._answer_s)
        return str(read_object(answer, "id")["id"])

    def accepted(self, project: str, model: str) -> ModelRecord | None:
        """What the owner of this key accepted last; None where that was nothing yet.

        Raises DocumentError for what another release wrote and this one cannot read.
        """
        params = {"project": project, "model": model, "accepted": "true", "mine": "true", "limit": 1}
        answer = self._client.call("GET", "/v1/checks", params=params, answer_s=self._answer_s)
        items = read_object(answer, "items")["items"]
        if not items:
            return None
        check = Check.from_value(items[0]["document"], name=f"the accepted check of {model}")
        identifier = str(check.answer.profile_id)
        return check.record(self._profile(identifier))

    def _profile(self, identifier: str) -> Profile:
        answer = self._client.call("GET", f"/v1/profiles/{identifier}", answer_s=self._answer_s)
        found = Profile.from_value(read_object(answer, "document")["document"], name="the accepted profile")
        if found.fingerprint() != identifier:
            raise UnreachableError(
                f"the profile {identifier[:12]}... at {self._client.url} has other content: accept anew"
            )
        return found
