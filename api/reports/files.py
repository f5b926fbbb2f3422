"""What can be saved from a report in one file? The plan and its tables, which it holds compressed."""

import base64
import gzip
from dataclasses import dataclass

from api.reports.spreadsheets import candidates_csv, rejected_csv, trials_csv
from tuner.plan import Plan
from tuner.tuning import Tuning

MOST_BYTES = 450_000
"""Of all of them as they stand in the file; what has no room is left out, and the page says so."""


@dataclass(frozen=True)
class HeldFile:
    """A file that a report holds."""

    name: str
    label: str
    media_type: str
    content: str
    """Base 64 of its gzip stream; empty where it is too long."""

    @property
    def id(self) -> str:
        """Of the element that holds it."""
        return f"file-{self.name.replace('.', '-')}"


def held_files(plan: Plan) -> list[HeldFile]:
    """The files of a report; equal plans give equal files."""
    texts = [("plan.json", "Plan, JSON", "application/json", plan.to_json())]
    if plan.candidates:
        texts.append(("candidates.csv", "Candidates, CSV", "text/csv", candidates_csv(plan)))
    texts.append(("rejected.csv", "Rejected, CSV", "text/csv", rejected_csv(plan)))
    if isinstance(plan, Tuning) and plan.trials:
        texts.append(("trials.csv", "Trials, CSV", "text/csv", trials_csv(plan)))
    left, found = MOST_BYTES, []
    for name, label, media_type, text in texts:
        packed = base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode("ascii")
        content = packed if len(packed) <= left else ""
        left -= len(content)
        found.append(HeldFile(name, label, media_type, content))
    return found
