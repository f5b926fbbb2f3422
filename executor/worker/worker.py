"""What does a worker do all day? It claims a job, does it, says how it ended, and claims the next one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from executor.launchers.processes import adopt_orphans
from executor.worker.departure import DepartedError, Departure
from executor.worker.job_process import Ending, Stop, do_job
from executor.worker.log import log_of, logger
from executor.worker.pulse import Pulse
from executor.worker.scratch import sweep_scratch
from executor.worker.surroundings import Surroundings
from tuner.attachments import Attachment
from tuner.client import Pace, ServiceClient
from tuner.client_errors import (
    DefectError,
    KeyRefusedError,
    RefusedError,
    StaleLeaseError,
    VersionError,
)
from tuner.messages import Failed, FinishReply, Job, Outcome, Released, WorkerInventory

_LONGEST_MESSAGE = 4_000
_AWAY_S = 5.0
"""A silence so long after the last one is another one, and is told."""
_SOON_S = 1.0
_PAUSES_S = (1.0, 2.0, 5.0)
"""After an answer that something went wrong in the service."""


@dataclass(frozen=True)
class Habits:
    """How a worker goes about it."""

    poll_s: float = 5.0
    """How long a claim waits for a job; an idle worker that is asked to leave takes at most as long."""
    once: bool = False
    """Leave after one job."""


class Worker:
    """One worker of a service. Only the main thread may run it: what it starts dies with that thread."""

    def __init__(
        self,
        connect: Callable[[Pace], ServiceClient],
        inventory: WorkerInventory,
        *,
        here: Surroundings,
        departure: Departure,
        habits: Habits,
    ) -> None:
        self._inventory, self._here, self._habits = inventory, here, habits
        self._departure = departure
        self._client = connect(Pace(sleep=self._wait))
        # Heartbeats go on while the worker waits for something else.
        self._pulse_client = connect(Pace())
        self._told_of_silence = 0.0
        self.tally: Counter[str] = Counter()
        """How many jobs ended how."""

    def run(self) -> None:
        """Work until asked to leave.

        Raises UnreachableError where nobody answers for longer than the client's patience, KeyRefusedError
        and VersionError where the service does not want this worker.
        """
        self._departure.listen()
        adopt_orphans()
        sweep_scratch()
        logger.info("worker %s takes jobs from %s", self._inventory.id, self._client.url)
        while not self._departure.asked:
            try:
                job = self._claim()
            except DepartedError:
                break
            if job is None:
                continue
            self._departure.at_work = True
            self._do(job)
            self._departure.at_work = False
            if self._habits.once:
                break
        logger.info("worker %s leaves", self._inventory.id)

    @property
    def identifier(self) -> str:
        """As the service knows this worker."""
        return self._inventory.id

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._pulse_client.close()

    def _claim(self) -> Job | None:
        """The next job; a service that is about to stop says at once that there is none."""
        begun = time.monotonic()
        try:
            job = self._client.claim(self._inventory, wait_s=self._habits.poll_s)
        except StaleLeaseError:
            # An answer that got lost: the service has given that job to somebody by now.
            return None
        except DefectError as error:
            logger.warning("no job: %s", error)
            self._departure.sleep(_PAUSES_S[-1])
            return None
        if job is None and time.monotonic() < begun + _SOON_S:
            self._departure.sleep(_SOON_S)
        return job

    def _do(self, job: Job) -> None:
        log = log_of(job)
        log.info("job %s: %s, attempt %d of %d", job.id, job.kind, job.attempt, job.max_attempts)
        begun = time.monotonic()
        with Pulse(self._pulse_client, job) as pulse:
            if self._departure.asked:
                ending = Ending(Released())
            else:
                ending = do_job(job, self._here, watch=lambda: self._stop(pulse), tell=pulse.tell)
            # Until the outcome is written the lease is kept.
            status = self._finish(job, ending)
        self.tally[status] += 1
        log.info("job %s: %s after %.1f s", job.id, status, time.monotonic() - begun)

    def _stop(self, pulse: Pulse) -> Stop | None:
        return pulse.stop or (Stop.RELEASED if self._departure.at_once else None)

    def _finish(self, job: Job, ending: Ending) -> str:
        """Write the outcome; says in a word how the job stands."""
        outcome = ending.outcome
        if outcome is None:
            return "lost"
        if isinstance(outcome, Failed):
            log_of(job).warning("job %s failed: %s", job.id, outcome.message)
        try:
            reply = self._deliver(job, outcome, ending.attachments)
            return "released" if isinstance(outcome, Released) else str(reply.status)
        except StaleLeaseError as error:
            log_of(job).warning("job %s: its outcome came too late: %s", job.id, error)
        except DepartedError:
            log_of(job).warning("job %s: nobody answered: its outcome is lost with this worker", job.id)
        return "lost"

    def _deliver(self, job: Job, outcome: Outcome, attachments: tuple[Attachment, ...]) -> FinishReply:
        try:
            return self._tell(job, outcome, attachments)
        except (StaleLeaseError, KeyRefusedError, VersionError):
            raise
        except RefusedError as error:
            # What the service cannot take must not be worked on again and again.
            message = f"the service did not take the outcome of the job: {error}"[:_LONGEST_MESSAGE]
            return self._client.finish(job, Failed(message=message))

    def _tell(self, job: Job, outcome: Outcome, attachments: tuple[Attachment, ...]) -> FinishReply:
        """What took hours is not lost because something went wrong in the service once."""
        for pause_s in _PAUSES_S:
            try:
                return self._client.finish(job, outcome, attachments=attachments)
            except DefectError as error:
                log_of(job).warning("job %s: its outcome was not taken: %s", job.id, error)
                self._departure.sleep(pause_s)
        return self._client.finish(job, outcome, attachments=attachments)

    def _wait(self, seconds: float) -> None:
        """Between two tries of a call."""
        if time.monotonic() > self._told_of_silence + _AWAY_S:
            logger.warning("no answer from %s: trying again", self._client.url)
        self._told_of_silence = time.monotonic()
        self._departure.sleep(seconds)
