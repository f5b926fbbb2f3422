"""Bidirectional schedules with split backwards: DualPipe, and Chimera filled with its weight gradients."""

import numpy as np

from tuner.configuration import Scaling
from tuner.schedules.chimera import Chimera
from tuner.schedules.scheme import Case, CriticalPath, Floats, shared_between


class DualPipe(Chimera):
    """Two pipes whose forwards and backwards run fused; D + 1 micro-batches a rank; N even, at least 2D."""

    name = "dualpipe"
    splits_backward = True

    def variants(self, depth: int, *, exhaustive: bool) -> list[tuple[Scaling, int]]:
        return [("direct", 1)]

    def illegal_depth(self, depth: int) -> str | None:
        return None if depth % 2 == 0 else f"{self.name} needs an even depth, and D = {depth}"

    def smallest_micro_batches(self, depth: int) -> int:
        return 2 * depth

    def illegal(self, depth: int, micro_batches: int, *, scaling: Scaling, pipe_pairs: int) -> str | None:
        if micro_batches % 2 or micro_batches < 2 * depth:
            return f"dualpipe needs an even N >= 2D, and N = {micro_batches}, D = {depth}"
        return None

    def critical_path(self, case: Case) -> CriticalPath:
        """Bubble (D/2 − 1)(F&B + B − 3W) with F&B = F + B and W = B/2."""
        work = case.micro_batches.astype(np.float64)
        half = case.depth / 2 - 1
        return CriticalPath(work + half, work + half / 2)

    def live(self, case: Case) -> Floats:
        left = (case.depth - np.arange(case.depth))[None, None, :]
        return np.minimum(case.micro_batches[:, None, None] // 2, left).astype(np.float64).repeat(2, axis=1)

    def pending(self, case: Case) -> Floats:
        """On the rank n from an end n + 1, at most max(1, ⌈n/2⌉) or min(n + 1, ⌈D/4⌉) of its nearer pipe."""
        stage = np.arange(case.depth)
        near = np.minimum(stage, stage[::-1])
        main = np.minimum(near + 1, -(-case.depth // 4))
        most = np.where(stage < case.depth / 2, main, np.maximum(1, -(-near // 2))).astype(np.float64)
        both = np.broadcast_to(most, (len(case.micro_batches), 2, case.depth))
        return shared_between(both, at_most=np.broadcast_to(near + 1.0, both[:, :1].shape))


class ChimeraSplit(DualPipe):
    """Chimera's direct order for forwards and input gradients; at most D/2 weight gradients wait."""

    name = "chimera_split"

    def smallest_micro_batches(self, depth: int) -> int:
        return depth

    def illegal(self, depth: int, micro_batches: int, *, scaling: Scaling, pipe_pairs: int) -> str | None:
        return None

    def critical_path(self, case: Case) -> CriticalPath:
        """3N + D/2 − 1 where F = I = W."""
        work = case.micro_batches.astype(np.float64)
        return CriticalPath(work + case.depth / 2 - 1, work)

    def live(self, case: Case) -> Floats:
        """At the first of the moments."""
        return np.asarray(self.moments(case)[0], dtype=np.float64)

    def moments(self, case: Case) -> Floats:
        """Chimera's, and on each rank at most D/2 − 1 more that only wait for their weight gradient.

        How its two stages share them depends on the times: it is as if one had all that it can have.
        """
        direct = super(DualPipe, self).live(case)
        room = self.shares(case)[:, :, None] - direct
        waiting = np.full((len(direct), 1, case.depth), case.depth / 2 - 1)
        return np.asarray(direct + shared_between(room, at_most=waiting), dtype=np.float64)

    def pending(self, case: Case) -> Floats:
        """At most D/2 on each rank."""
        most = np.broadcast_to(self.shares(case)[:, :, None], (len(case.micro_batches), 2, case.depth))
        waiting = np.full((len(most), 1, case.depth), case.depth / 2)
        return shared_between(most.astype(np.float64), at_most=waiting)
