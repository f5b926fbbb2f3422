"""How do commands reach a service, and what do they say of a study?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import click

from cli.errors import DONE, NEGATIVE, NOT_ANSWERED, visible

if TYPE_CHECKING:
    from tuner.plan import Plan
    from tuner.study_calls import Study, StudyCalls

SERVICE = (
    click.option(
        "--url", envvar="CHIMERA_URL", default="http://127.0.0.1:8000", metavar="URL",
        show_default="CHIMERA_URL, else http://127.0.0.1:8000",
        help="Where the service is. An API key is read from CHIMERA_API_KEY.",
    ),
    click.option(
        "--patience", type=click.FloatRange(0, 86_400), default=30.0,
        help="Seconds to repeat a call while nobody answers.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
)  # fmt: skip

_LOOKED_EVERY_S = 10.0
"""What a study waits for is told anew so often."""

STUDY = click.argument("study", metavar="STUDY")
"""Its id, or `latest`."""


@contextmanager
def connected(url: str, patience_s: float) -> Iterator[StudyCalls]:
    """Calls of the studies of the service there."""
    from tuner.client import ANSWER_S, ServiceClient
    from tuner.study_calls import StudyCalls

    # What a secret store gives ends in a line break more often than not.
    key = os.environ.get("CHIMERA_API_KEY", "").strip() or None
    with ServiceClient(url, key=key, patience_s=patience_s) as client:
        yield StudyCalls(client, answer_s=min(ANSWER_S, max(1.0, patience_s)))


def follow(calls: StudyCalls, study: Study, *, wait_s: float) -> Study:
    """The study when it ends, or as it stands after `wait_s` seconds; says on stderr what it waits for."""
    from tuner.study_calls import FINAL

    until, said = monotonic() + wait_s, ""
    while study["status"] not in FINAL and (left := until - monotonic()) > 0:
        told = _progress(study)
        if told != said:
            click.echo(visible(told), err=True)
            said = told
        asked = monotonic()
        study = calls.read(study["id"], wait_s=min(left, _LOOKED_EVERY_S))
        if study["status"] not in FINAL and monotonic() - asked < 1:
            sleep(min(left, 1))  # what does not wait is not asked all the time
    return study


def _progress(study: Study) -> str:
    waits = f", waits for {study['waiting_for']}" if study.get("waiting_for") else ""
    return f"{study['id']}: {study['status']}{waits}"


def exit_code_of(study: Study) -> int:
    """0 answered, 1 nothing fits, 3 not answered."""
    if study["status"] != "done":
        return NOT_ANSWERED
    return DONE if (study.get("plan") or {}).get("chosen") else NEGATIVE


def describe_study(study: Study, *, url: str) -> Iterator[str]:
    """Lines for a terminal: the answer, or how far it is, and where to look; `url` is the service's."""
    from urllib.parse import urljoin

    page = (study.get("links") or {}).get("page")
    plan = _plan(study.get("plan"))
    if plan is not None:
        from cli.answer import describe

        yield from describe(plan, None)
        yield ""
    ended = {"done": "is answered", "failed": f"failed: {study.get('error')}", "cancelled": "was cancelled"}
    waits = f" and waits for {study['waiting_for']}" if study.get("waiting_for") else ""
    stands = ended.get(study["status"], f"is {study['status']}{waits}")
    yield f"Study {study['id']} {stands.rstrip('.')}."
    if page:
        yield f"Report: {urljoin(url + '/', page)}"
    if study["status"] not in ended:
        yield f"Next: chimera watch {study['id']}"


def _plan(value: Any) -> Plan | None:
    """The plan of a study, also one that a later release wrote more into; None where there is none."""
    from pydantic import ValidationError

    from tuner.plan import Plan

    if not isinstance(value, dict):
        return None
    try:
        return Plan.model_validate({key: part for key, part in value.items() if key in Plan.model_fields})
    except ValidationError:
        return None
