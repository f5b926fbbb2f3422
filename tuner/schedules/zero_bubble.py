"""Zero-bubble schedules: backwards split into input and weight gradients, the latter filling the bubbles."""

import numpy as np

from tuner.schedules.scheme import Case, CriticalPath, Floats, Integers
from tuner.schedules.single import Dapple


class ZbH1(Dapple):
    """1F1B that leaves weight gradients for the drain: bubble (D − 1)·F, D micro-batches alive."""

    name = "zb_h1"
    splits_backward = True

    def illegal_depth(self, depth: int) -> str | None:
        return None if depth > 1 else f"{self.name} needs D > 1: with one rank it is dapple"

    def critical_path(self, case: Case) -> CriticalPath:
        work = case.micro_batches.astype(np.float64)
        return CriticalPath(work + case.depth - 1, work)

    def live(self, case: Case) -> Floats:
        """min(N, D) on every rank: what 1F1B has finished waits here for its weight gradient."""
        alive = np.minimum(case.micro_batches, case.depth)[:, None, None].astype(np.float64)
        return np.broadcast_to(alive, (len(case.micro_batches), 1, case.depth))

    def pending(self, case: Case) -> Floats:
        """min(N, s + 1)."""
        return _at_most(case, np.arange(1, case.depth + 1))[None]


class ZbV(ZbH1):
    """Two chunks a rank in a V: stages s and 2D − 1 − s on rank s; busy without a break once it has begun."""

    name = "zb_v"
    chunks = 2

    def placement(self, depth: int, pipe_pairs: int) -> Integers:
        ranks = np.arange(depth, dtype=np.int64)
        return np.concatenate([ranks, ranks[::-1]])[None, :]

    def critical_path(self, case: Case) -> CriticalPath:
        """The last rank waits for D − 1 forwards of a chunk; nothing else is lost where F = I = W."""
        work = (self.chunks * case.micro_batches).astype(np.float64)
        return CriticalPath(work + case.depth - 1, work)

    def live(self, case: Case) -> Floats:
        """2D − 1 − s in the first half of the V, 2D − s in the second: D micro-batches a rank."""
        stage = np.arange(2 * case.depth)
        most = 2 * case.depth - stage - (stage < case.depth)
        return _at_most(case, most)

    def moments(self, case: Case) -> Floats:
        """Where N >= 2D − r, rank r has then one more of its first stage and one less of its second."""
        first = self.live(case)
        rank = np.minimum(np.arange(2 * case.depth), np.arange(2 * case.depth)[::-1])
        step = np.where(np.arange(2 * case.depth) < case.depth, 1, -1)
        more = case.micro_batches[:, None] >= 2 * case.depth - rank
        return np.stack([first, first + np.where(more, step, 0)[:, None, :]])

    def pending(self, case: Case) -> Floats:
        """Rank r up to r + 1 of its first stage beside r of its second, or r beside max(1, r)."""
        rank = np.arange(case.depth)
        moments = [(rank + 1, rank), (rank, np.maximum(1, rank))]
        return np.stack([_at_most(case, np.concatenate([a, b[::-1]])) for a, b in moments])

    def weight_versions(self, depth: int) -> Integers:
        return np.ones(2 * depth, dtype=np.int64)


def _at_most(case: Case, most: Integers) -> Floats:
    """`most` of each stage [s], and at most all micro-batches [b, 1, s]."""
    return np.minimum(case.micro_batches[:, None, None], most[None, None, :]).astype(np.float64)
