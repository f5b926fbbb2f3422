"""GEMS: two replicas in opposite directions, at most two micro-batches active."""

import numpy as np

from tuner.configuration import Scaling
from tuner.schedules.scheme import Case, CriticalPath, Floats, Integers, two_way


class Gems:
    """F_down B_down F_up B_up on every rank; one micro-batch of activations, two copies of the weights."""

    name = "gems"
    synchronous = True
    eager_opt = False
    pipes_overlap = False
    chunks = 1
    splits_backward = False

    def variants(self, depth: int, *, exhaustive: bool) -> list[tuple[Scaling, int]]:
        return [("direct", 1)]

    def illegal_depth(self, depth: int) -> str | None:
        return None if depth % 2 == 0 else f"gems needs an even depth, and D = {depth}"

    def smallest_micro_batches(self, depth: int) -> int:
        return 2

    def illegal(self, depth: int, micro_batches: int, *, scaling: Scaling, pipe_pairs: int) -> str | None:
        return None

    def placement(self, depth: int, pipe_pairs: int) -> Integers:
        return two_way(depth)

    def shares(self, case: Case) -> Integers:
        down = (case.micro_batches + 1) // 2
        return np.stack([down, case.micro_batches - down], axis=1)

    def critical_path(self, case: Case) -> CriticalPath:
        """(B·D + 1)·N + D − 1 at F = 1: every backward passes all stages alone."""
        micro_batches = case.micro_batches.astype(np.float64)
        return CriticalPath(micro_batches + case.depth - 1, micro_batches * case.depth)

    def live(self, case: Case) -> Floats:
        """One micro-batch, of one pipe or the other."""
        alive = np.minimum(self.shares(case), 1)[:, :, None].astype(np.float64)
        return np.broadcast_to(alive, (len(case.micro_batches), 2, case.depth))

    def moments(self, case: Case) -> Floats:
        """The stages of a rank are fullest together."""
        return self.live(case)[None]

    def pending(self, case: Case) -> Floats:
        """None: a backward is one operation."""
        return np.zeros_like(self.live(case))[None]

    def weight_versions(self, depth: int) -> Integers:
        return np.ones(depth, dtype=np.int64)
