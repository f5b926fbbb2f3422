"""Does somebody ask too much? Each caller has a budget for each kind of call, which fills up again."""

import math
import time
from collections.abc import Callable
from threading import Lock

from api.web.problems import TooManyProblem
from api.web.visit import current_visit

MOST_KEPT = 10_000
"""Budgets that are in use at a time; full ones are forgotten first."""


class Rates:
    """Token buckets, each kept as the moment at which it will be full again (GCRA).

    A bucket of `burst` tokens gets `per_minute` a minute. They are those of one process: several give each
    caller as many times as much.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, Lock()
        self._full_at: dict[str, float] = {}

    def take(self, bucket: str, *, per_minute: float, burst: int) -> float:
        """Take a token: 0 when there was one, else the seconds until there is, and none is taken."""
        token_s = 60 / per_minute
        with self._lock:
            now = self._clock()
            full_at = max(self._full_at.get(bucket, now), now) + token_s
            wait_s = full_at - now - burst * token_s
            # Sums of tokens are not exact.
            if wait_s > 1e-6 * token_s:
                return wait_s
            if len(self._full_at) >= MOST_KEPT:
                self._forget(now)
            self._full_at[bucket] = full_at
            return 0.0

    def charge(self, kind: str, *, per_minute: float, burst: int) -> None:
        """Let whoever makes the present request pay for a call of this kind; raises TooManyProblem."""
        visit = current_visit()
        who = visit.identity if visit.key_name is not None else visit.address
        wait_s = self.take(f"{kind} {who}", per_minute=per_minute, burst=burst)
        if wait_s:
            retry_s = math.ceil(wait_s)
            raise TooManyProblem(
                f"{kind}: each caller has {burst:,} at once and {per_minute:,g} a minute; the next one in "
                f"{retry_s:,} s",
                headers={"Retry-After": str(retry_s)},
            )

    def _forget(self, now: float) -> None:
        """Full buckets are like new ones; where all are in use, those go that are full soonest."""
        rest = sorted((at, name) for name, at in self._full_at.items() if at > now)
        self._full_at = {name: at for at, name in rest[-(MOST_KEPT // 2) :]}
