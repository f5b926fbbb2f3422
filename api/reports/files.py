"""What can be saved from a report in one file? The plan and its tables, which it holds compressed."""

import base64
import gzip
from dataclasses import dataclass

from api.reports.spreadsheets import candidates_csv, rejected_csv, trials_csv
from tuner.plan import Plan
from tuner.tuning import Tuning

MOST_BYTES = 700_000
"""Of one of them as it stands in the file; a longer one is left out, and the page says so."""


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
    found = [
        _held("plan.json", "Plan, JSON", media_type="application/json", text=plan.to_json()),
        _held("rejected.csv", "Rejected, CSV", media_type="text/csv", text=rejected_csv(plan)),
    ]
    if plan.candidates:
        found.insert(
            1, _held("candidates.csv", "Candidates, CSV", media_type="text/csv", text=candidates_csv(plan))
        )
    if isinstance(plan, Tuning) and plan.trials:
        found.append(_held("trials.csv", "Trials, CSV", media_type="text/csv", text=trials_csv(plan)))
    return found


def _held(name: str, label: str, *, media_type: str, text: str) -> HeldFile:
    content = base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode("ascii")
    return HeldFile(name, label, media_type, content if len(content) <= MOST_BYTES else "")
