"""Schedules with one pipe and a flush: GPipe and DAPPLE (1F1B)."""

import numpy as np

from tuner.configuration import Scaling
from tuner.schedules.scheme import Case, CriticalPath, Floats, Integers, one_pipe


class _Single:
    """What the one-pipe schedules share; they differ in how many micro-batches stay alive."""

    name = ""
    synchronous = True
    eager_opt = False
    pipes_overlap = True
    chunks = 1
    splits_backward = False

    def variants(self, depth: int, *, exhaustive: bool) -> list[tuple[Scaling, int]]:
        return [("direct", 1)]

    def illegal_depth(self, depth: int) -> str | None:
        return None

    def smallest_micro_batches(self, depth: int) -> int:
        return depth

    def illegal(self, depth: int, micro_batches: int, *, scaling: Scaling, pipe_pairs: int) -> str | None:
        return None

    def placement(self, depth: int, pipe_pairs: int) -> Integers:
        return one_pipe(depth)

    def shares(self, case: Case) -> Integers:
        return case.micro_batches[:, None]

    def critical_path(self, case: Case) -> CriticalPath:
        """(N + D − 1)(F + B), for any F and B."""
        steps = (case.micro_batches + case.depth - 1).astype(np.float64)
        return CriticalPath(steps, steps)

    def live(self, case: Case) -> Floats:
        """min(N, D − s)."""
        return one_f_one_b_live(case)

    def moments(self, case: Case) -> Floats:
        """The stages of a rank are fullest together."""
        return self.live(case)[None]

    def pending(self, case: Case) -> Floats:
        """None: a backward is one operation."""
        return np.zeros_like(self.live(case))[None]

    def weight_versions(self, depth: int) -> Integers:
        return np.ones(depth, dtype=np.int64)


class GPipe(_Single):
    """All forwards, then all backwards, then the update: N·M_a of activations."""

    name = "gpipe"

    def live(self, case: Case) -> Floats:
        alive = np.broadcast_to(case.micro_batches[:, None, None], (len(case.micro_batches), 1, case.depth))
        return alive.astype(np.float64)


class Dapple(_Single):
    """1F1B with a flush: stage s keeps min(N, D − s) micro-batches."""

    name = "dapple"


class PipeDream2BW(Dapple):
    """1F1B without a flush; a new version per mini-batch, two kept; needs N >= D."""

    name = "pipedream_2bw"
    synchronous = False

    def illegal(self, depth: int, micro_batches: int, *, scaling: Scaling, pipe_pairs: int) -> str | None:
        if micro_batches < depth:
            return (
                f"pipedream_2bw accumulates over N >= D micro-batches, and N = {micro_batches} < D = {depth}"
            )
        return None

    def critical_path(self, case: Case) -> CriticalPath:
        """N(F + B): the pipe never drains."""
        steps = case.micro_batches.astype(np.float64)
        return CriticalPath(steps, steps)

    def live(self, case: Case) -> Floats:
        return np.broadcast_to(
            (case.depth - np.arange(case.depth)).astype(np.float64), (len(case.micro_batches), 1, case.depth)
        )

    def weight_versions(self, depth: int) -> Integers:
        return np.full(depth, 2, dtype=np.int64)


class PipeDream(PipeDream2BW):
    """1F1B without a flush, an update after every micro-batch: stage s keeps D − s weight versions."""

    name = "pipedream"

    def smallest_micro_batches(self, depth: int) -> int:
        return 1

    def illegal(self, depth: int, micro_batches: int, *, scaling: Scaling, pipe_pairs: int) -> str | None:
        if micro_batches != 1:
            return f"pipedream updates after every micro-batch: N = 1, not {micro_batches}"
        return None

    def weight_versions(self, depth: int) -> Integers:
        return depth - np.arange(depth, dtype=np.int64)


def one_f_one_b_live(case: Case) -> Floats:
    """min(N, D − s) [b, 1, s]."""
    left = case.depth - np.arange(case.depth)
    return np.minimum(case.micro_batches[:, None, None], left[None, None, :]).astype(np.float64)
