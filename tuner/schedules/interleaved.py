"""Interleaved 1F1B: every rank holds two stages a depth apart, and the pipeline fills in half the time."""

import numpy as np

from tuner.configuration import Scaling
from tuner.schedules.scheme import Case, CriticalPath, Floats, Integers, one_pipe
from tuner.schedules.single import Dapple


class Interleaved(Dapple):
    """Two chunks a rank; bubble (D − 1)(F + B)/2 for the times of a whole rank; needs D to divide N."""

    name = "interleaved"
    chunks = 2

    def illegal_depth(self, depth: int) -> str | None:
        return None if depth > 1 else "interleaved needs D > 1: with one rank it is dapple"

    def illegal(self, depth: int, micro_batches: int, *, scaling: Scaling, pipe_pairs: int) -> str | None:
        if micro_batches % depth:
            return f"interleaved needs D to divide N, and N = {micro_batches}, D = {depth}"
        return None

    def placement(self, depth: int, pipe_pairs: int) -> Integers:
        """Stage s on rank s mod D."""
        return one_pipe(self.chunks * depth) % depth

    def critical_path(self, case: Case) -> CriticalPath:
        steps = (case.micro_batches * self.chunks + case.depth - 1).astype(np.float64)
        return CriticalPath(steps, steps)

    def live(self, case: Case) -> Floats:
        """Before its first backward rank w runs min(vN, 2(D − w − 1) + (v − 1)D) forwards, D at a time."""
        depth, chunks = case.depth, self.chunks
        rank = np.arange(depth)
        warm = np.minimum(chunks * case.micro_batches[:, None], 2 * (depth - rank - 1) + (chunks - 1) * depth)
        issued = np.minimum(chunks * case.micro_batches[:, None], warm + 1)
        rounds, rest = np.divmod(issued, chunks * depth)
        alive = [rounds * depth + np.clip(rest - chunk * depth, 0, depth) for chunk in range(chunks)]
        return np.concatenate(alive, axis=1)[:, None, :].astype(np.float64)

    def moments(self, case: Case) -> Floats:
        """As many stay alive on a rank, but of its first chunk up to min(N, 2D) while the second empties."""
        first = self.live(case)
        chunks = first.reshape(len(first), self.chunks, case.depth)
        all_alive = chunks.sum(axis=1)
        early = np.minimum(all_alive, np.minimum(case.micro_batches, 2 * case.depth)[:, None])
        later = np.stack([early, all_alive - early], axis=1).reshape(first.shape)
        return np.stack([first, later])

    def weight_versions(self, depth: int) -> Integers:
        return np.ones(self.chunks * depth, dtype=np.int64)
