"""What does the process of a job hand back?"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tuner.assignments import Result
from tuner.attachments import Attachment

Tell = Callable[[dict[str, Any]], None]
"""Says how far the job is, in a few keys, for people who watch."""


@dataclass(frozen=True)
class Answer:
    """The result of a job, with what belongs to it."""

    result: Result
    attachments: tuple[Attachment, ...] = ()


class LostError(Exception):
    """The attempt was disturbed, and another one may end otherwise; `evidence` says what is known."""

    def __init__(self, message: str, evidence: dict[str, Any]) -> None:
        super().__init__(message)
        self.evidence = evidence
