"""What runs in the process of one job? Its handler, which hands back lines of JSON.

`python -P -m executor.worker.child KIND PARENT`: payload and surroundings come on stdin as one JSON
document. Lines on stdout are {"progress": {...}}, and last {"done": {...}} or {"failed": {...}}; whatever the
job prints is its log, on stderr. The process is killed when its parent, the worker, ends.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

from executor.errors import ConfigurationError, ExecutorError, ModelError
from executor.launchers.processes import die_with_parent
from executor.worker.answer import Answer, LostError, Tell
from executor.worker.surroundings import Surroundings
from profiles.errors import DocumentError
from tuner.assignments import ProfileLinks, ProfileModel, Trial, read_assignment
from tuner.errors import TunerError
from tuner.messages import Failed, JobKind, storable

_LONGEST_MESSAGE = 4_000
_LONGEST_TRACE = 20_000
_KILLED_FIRST = "700"
"""Where memory ends the kernel takes a job before its worker."""


def do(kind: JobKind, payload: dict[str, Any], here: Surroundings, *, tell: Tell) -> Answer:
    """Do a job of that kind; see its handler for what is raised."""
    match read_assignment(kind, payload):
        case ProfileModel() as asked:
            from executor.worker.profile_job import profile_model

            return profile_model(asked, here, tell)
        case ProfileLinks() as asked:
            from executor.worker.links_job import profile_links

            return profile_links(asked, here, tell)
        case Trial() as asked:
            from executor.worker.trial_job import run_trial_job

            return run_trial_job(asked, here, tell)


def failure_of(error: Exception) -> Failed:
    """How an attempt failed: what can never work is not tried again."""
    message = storable(str(error).strip() or type(error).__name__)[:_LONGEST_MESSAGE]
    match error:
        case LostError():
            return Failed(message=message, retry=True, evidence=error.evidence)
        case ConfigurationError() | ModelError() | TunerError() | DocumentError():
            return Failed(message=message)
        case ExecutorError():
            return Failed(message=message, retry=True, evidence={"error": type(error).__name__})
    trace = "".join(traceback.format_exception(error))[-_LONGEST_TRACE:]
    message = f"unexpected {type(error).__name__}: {message}"[:_LONGEST_MESSAGE]
    return Failed(message=message, retry=True, evidence={"traceback": trace})


def main(kind: str, parent: int) -> NoReturn:
    """Do the job that stdin describes."""
    die_with_parent(parent)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_KILLED_FIRST, encoding="ascii")
    answers = _take_stdout()
    asked = json.load(sys.stdin)
    here = Surroundings.read(asked["surroundings"])

    def say(**line: Any) -> None:
        answers.write(json.dumps(line) + "\n")
        answers.flush()

    try:
        answer = do(JobKind(kind), asked["payload"], here, tell=lambda progress: say(progress=progress))
    except Exception as error:  # noqa: BLE001 (whatever it is, it is reported)
        failed = failure_of(error)
        if failed.retry:
            traceback.print_exc()
        say(failed=failed.model_dump(mode="json"))
    else:
        say(
            done=answer.result.model_dump(mode="json", exclude_none=True),
            attachments=[attachment.model_dump(mode="json") for attachment in answer.attachments],
        )
    sys.stdout.flush()
    sys.stderr.flush()
    # Python's own exit takes more than a second with torch, and may hang in what broke.
    os._exit(0)


def _take_stdout() -> IO[str]:
    """The answers' own way out, which no child inherits; what is printed goes to the log instead."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
