"""What may a study spend on real trials, and where do they run? The `refine` of `POST /v1/studies`."""

from typing import Annotated

from pydantic import Field

from profiles.document import Count, Part, PositiveSeconds
from tuner.messages import Pool

MOST_TRIALS = 10_000


class RefineRequest(Part):
    """Real trials after the plan, on layers and links that were measured where the trials run."""

    trials: Annotated[int, Field(ge=1, le=MOST_TRIALS)]
    """At most so many."""
    device_seconds: PositiveSeconds | None = None
    """At most so long, times the devices that a trial holds."""
    pool: Pool = "default"
    """The pool of workers that measures."""
    seed: Count = 0
    """Of the choice among trials that promise the same."""
