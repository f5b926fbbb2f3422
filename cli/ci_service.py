"""What does a service do for checks? It keeps profiles and verdicts, and gives the accepted ones back.

Whatever goes wrong with it is noted, and changes no verdict: a pull request does not fail because a service
is down, or because its job has no key.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urljoin, urlsplit, urlunsplit

import click

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cli.ci_models import Checked, Prepared
    from tuner.client import ServiceClient
    from tuner.regressions.answer import ModelAnswer
    from tuner.regressions.manifest import CheckedModel
    from tuner.regressions.records import Baseline, ModelRecord


@dataclass
class CiService:
    """The service at CHIMERA_URL, as far as it answers."""

    origin: dict[str, Any]
    """Project, branch, revision, job and time."""
    patience_s: float
    problems: list[str] = field(default_factory=list)
    silent: bool = False
    """Nobody answers there: it is not asked again."""
    kept: bool = False
    """Whether all was uploaded."""

    def baseline(self, models: Sequence[CheckedModel]) -> Baseline | None:
        """What was accepted last of each model; None where that cannot be told."""
        from profiles.errors import DocumentError
        from tuner.check_calls import CheckCalls
        from tuner.errors import TunerError
        from tuner.regressions.records import write_baseline

        try:
            with self._client() as client:
                calls = CheckCalls(client, answer_s=max(1.0, self.patience_s))
                found = [calls.accepted(self.origin["project"], model.name) for model in models]
        except (TunerError, DocumentError) as error:
            self._note("the baseline could not be read from the service", error)
            return None
        return write_baseline(tuple(record for record in found if record))

    def upload(self, checked: Sequence[Checked], *, accept: bool) -> list[ModelAnswer]:
        """Keep profiles, plans of what is not as it was, and verdicts; the answers come back with links."""
        from tuner.errors import TunerError

        answers: list[ModelAnswer] = []
        if not self.silent:
            try:
                with self._client() as client:
                    answers += (self._keep(client, each, accept=accept) for each in checked)
                self.kept = True
            except TunerError as error:
                self._note(f"{len(answers)} of {len(checked)} models were uploaded", error)
        return [*answers, *(answer for _, answer, _ in checked[len(answers) :])]

    def _keep(self, client: ServiceClient, checked: Checked, *, accept: bool) -> ModelAnswer:
        from tuner.check_calls import CheckCalls
        from tuner.regressions.check import check_of
        from tuner.study_calls import StudyCalls

        prepared, answer, record = checked
        study: dict[str, Any] | None = None
        if record is not None:
            studies = StudyCalls(client, answer_s=max(1.0, self.patience_s))
            studies.keep_profile(record.profile)
            if answer.status != "ok":
                study = self._plan(studies, prepared, record)
        where = self.origin | ({"study": study["id"]} if study else {})
        CheckCalls(client, answer_s=max(1.0, self.patience_s)).keep(
            check_of(answer, record, accepted=accept, where=where)
        )
        return answer.model_copy(update={"links": dict(self._links(client.url, answer, study))})

    def _plan(self, studies: Any, prepared: Prepared, record: ModelRecord) -> dict[str, Any] | None:
        """The study of a model's plan, whose page is the report; None where the service refuses it."""
        from cli.ci_models import study_of
        from tuner.client_errors import RefusedError
        from tuner.regressions.records import fingerprint_of

        revision = self.origin.get("revision", "")[:12]
        name = f"{self.origin['project']} {record.name} {revision}"[:200].strip()
        body = study_of(prepared, record) | {"name": name}
        try:
            study: dict[str, Any] = studies.submit(body, idempotency_key=fingerprint_of(body))
        except RefusedError as error:
            click.echo(f"note: {record.name} has no report in the service: {error}", err=True)
            return None
        return study

    def _links(
        self, url: str, answer: ModelAnswer, study: dict[str, Any] | None
    ) -> Iterator[tuple[str, str]]:
        """Pages, without a password that the address may hold."""
        parts = urlsplit(url)
        shown = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])).rstrip("/")
        if study is not None:
            yield "report", urljoin(shown + "/", study["links"]["page"])
        project = quote(self.origin["project"], safe="")
        yield "history", f"{shown}/models/{quote(answer.name, safe='')}/history?project={project}"
        if answer.profile_id is not None:
            yield "profile", f"{shown}/profiles/{answer.profile_id}"

    def _client(self) -> ServiceClient:
        from tuner.client import ServiceClient
        from tuner.errors import RequestError

        url = os.environ.get("CHIMERA_URL")
        if not url:
            raise RequestError("CHIMERA_URL is not set")
        key = os.environ.get("CHIMERA_API_KEY", "").strip() or None
        return ServiceClient(url, key=key, patience_s=self.patience_s)

    def _note(self, what: str, error: Exception) -> None:
        from tuner.client_errors import KeyRefusedError, UnreachableError
        from tuner.errors import RequestError

        keyless = isinstance(error, KeyRefusedError) and not os.environ.get("CHIMERA_API_KEY")
        why = "it wants a key, and CHIMERA_API_KEY is not set here (a pull request from a fork?)"
        told = f"{what}: {why if keyless else error}"
        self.silent = isinstance(error, UnreachableError | RequestError) or keyless
        self.problems.append(told[:1000])
        click.echo(f"note: {told}", err=True)
