"""Where does a worker log? Under one name; what it tells of a job carries the ids of job and study."""

import logging
from typing import Any

from tuner.messages import Job

logger = logging.getLogger("chimera.worker")


def log_of(job: Job) -> "logging.LoggerAdapter[Any]":
    """The log, with the ids of this job on every line."""
    return logging.LoggerAdapter(logger, {"job_id": job.id, "study_id": job.study_id})
