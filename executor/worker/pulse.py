"""How does the service hear that a job is being worked on? By heartbeats, from a thread of their own."""

from __future__ import annotations

import threading
from typing import Any

from executor.worker.job_process import Stop
from executor.worker.log import log_of
from tuner.client import ServiceClient
from tuner.client_errors import RefusedError, UnreachableError
from tuner.messages import Job


class Pulse:
    """Beats until it is let go; what the service answers is in `stop`.

    While nobody answers it goes on: a service that comes back still knows the lease, unless another worker
    has taken the job over, which it then says.
    """

    def __init__(self, client: ServiceClient, job: Job) -> None:
        self._client, self._job = client, job
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"pulse-{job.id}", daemon=True)
        self.stop: Stop | None = None
        self.progress: dict[str, Any] | None = None

    def __enter__(self) -> Pulse:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Beat no more; a beat that is under way ends by itself, and changes nothing."""
        self._done.set()

    def tell(self, progress: dict[str, Any]) -> None:
        """Say so with the next beat."""
        self.progress = progress

    def _beat(self) -> None:
        every_s = self._job.heartbeat_s
        while not self._done.wait(every_s):
            try:
                reply = self._client.heartbeat(self._job, progress=self.progress)
            except RefusedError as error:
                if not self._done.is_set():
                    log_of(self._job).warning("job %s is not this worker's any more: %s", self._job.id, error)
                    self.stop = Stop.LOST
                return
            except UnreachableError as error:
                log_of(self._job).warning("no heartbeat of job %s arrived: %s", self._job.id, error)
                continue
            if reply.cancel:
                self.stop = Stop.CANCELLED
            every_s = reply.heartbeat_s
