"""What did the trials of a study record over time? The traces that workers attached, read as timelines."""

import gzip
import json
import zlib
from dataclasses import dataclass
from math import inf

from sqlalchemy import select
from sqlalchemy.orm import Session, undefer

from api.computing import timelines as computed
from api.reports.lanes import HeldLane, trial_lane
from api.service import Service
from api.storage.tables import JobAttachment, StudyTrial
from api.studies.questions import Question, texts_of
from api.studies.timelines import KeptTimeline, content_key
from api.studies.trials import configuration_of, read_trials
from api.web.problems import NotFoundProblem
from tuner.configuration import Configuration
from tuner.errors import RequestError, TunerError
from tuner.tuning import Tuning

TRACE = "trace.json"
"""What a worker calls the trace of a trial."""
MOST_HELD, MOST_HELD_BYTES = 2, 200_000
"""Recorded timelines in a report in one file, and bytes of each."""
_MOST_READ = 20
MOST_TRACE_BYTES = 50_000_000
"""Of a trace that is read, inflated."""


@dataclass(frozen=True)
class Recording:
    """The trace of a trial as it is stored."""

    configuration: Configuration
    deflated: bytes
    size_bytes: int

    def text(self) -> bytes:
        """The trace as the worker wrote it."""
        return zlib.decompress(self.deflated)

    def check_length(self) -> None:
        """Raise RequestError where it is too long to be drawn."""
        if self.size_bytes > MOST_TRACE_BYTES:
            raise RequestError(
                f"the trace has {self.size_bytes / 1e6:.0f} MB and at most {MOST_TRACE_BYTES / 1e6:.0f} MB "
                "are drawn: save it and open it in Perfetto"
            )


def numbers_with_trace(session: Session, study_id: str) -> list[int]:
    """The trials of a study whose traces are kept."""
    traced = set(
        session.scalars(
            select(JobAttachment.job_id)
            .join(StudyTrial, StudyTrial.job_id == JobAttachment.job_id)
            .where(StudyTrial.study_id == study_id, JobAttachment.name == TRACE)
        )
    )
    return [trial.number for trial in read_trials(session, study_id) if trial.job_id in traced]


def read_recording(session: Session, study_id: str, number: int) -> Recording:
    """The trace of the last attempt at a trial; raises NotFoundProblem."""
    trial = session.scalar(
        select(StudyTrial).where(StudyTrial.study_id == study_id, StudyTrial.number == number)
    )
    if trial is None:
        raise NotFoundProblem(f"study {study_id} has no trial {number:,}; its trials are listed under it")
    found = session.scalar(
        select(JobAttachment)
        .where(JobAttachment.job_id == trial.job_id, JobAttachment.name == TRACE)
        .order_by(JobAttachment.attempt.desc())
        .limit(1)
        .options(undefer(JobAttachment.content))
    )
    if found is None:
        raise NotFoundProblem(
            f"trial {number:,} has no trace: it has not ended, gave no times, or its trace was longer than a "
            "worker sends; what is older than CHIMERA_RETENTION_DAYS was deleted"
        )
    return Recording(configuration_of(trial), found.content, found.size_bytes)


def find_recorded(service: Service, question: Question, recording: Recording) -> KeptTimeline:
    """What a trial recorded, as it is drawn; raises TunerError where its trace is none."""
    key = content_key(question, str(recording.configuration), recording.deflated)

    def make() -> bytes:
        recording.check_length()
        ran, stored = recording.configuration.document(), computed.as_stored(recording.deflated)
        return service.computing.call(computed.recorded, texts_of(question), ran, stored).content

    return KeptTimeline(key, service.timelines.find(key, make))


def held_recordings(
    service: Service, question: Question, *, tuning: Tuning, recordings: dict[int, Recording]
) -> list[HeldLane]:
    """What trials recorded, for a report in one file: the fastest ones whose traces are short enough."""
    found: list[HeldLane] = []
    trials = dict(enumerate(tuning.trials, start=1))
    for number in sorted(recordings, key=lambda each: trials[each].measured or inf):
        try:
            kept = find_recorded(service, question, recordings[number])
        except TunerError:
            continue
        text = gzip.decompress(kept.gzipped)
        if len(text) <= MOST_HELD_BYTES:
            lane = trial_lane(trials[number], number, value=f"timeline-trial-{number}")
            found.append((lane, json.loads(text)))
        if len(found) == MOST_HELD:
            break
    return found


def read_recordings(session: Session, study_id: str) -> dict[int, Recording]:
    """The traces of a study that are kept, by the numbers of their trials."""
    numbers = numbers_with_trace(session, study_id)[:_MOST_READ]
    return {number: read_recording(session, study_id, number) for number in numbers}
