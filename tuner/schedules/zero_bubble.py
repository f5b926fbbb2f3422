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
        return np.minimum(case.micro_batches[:, None, None], most[None, None, :]).astype(np.float64)

    def weight_versions(self, depth: int) -> Integers:
        return np.ones(2 * depth, dtype=np.int64)
