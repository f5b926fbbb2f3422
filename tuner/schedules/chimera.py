"""Chimera: f down pipes and f up pipes in one group of ranks (Li & Hoefler, SC'21).

With K = N/D, F and B the times of a stage, bubbles beyond the work N(F + B) of a rank are

    direct    (D/f − 2)·[max(F, B) + (K − 1)·|B − F|]
    doubling  (D − 2)·[max((F + B)/2, |B − F|, F) + (K/2 − 1)·max(0, B − 2F, F − B)]      K even
    halving   (D − 2)·[max(F, B/2) + (K − 1)·|B/2 − F|]

found by simulating the orders of the paper's section 3 and exact for equal stages. A short last unit of r
micro-batches under direct (r rounded up to even) saves (D − r)·max(F, B) of a full one: exact for B <= F and
for N < D, else an upper bound (at most 4 % over).
"""

import numpy as np

from tuner.configuration import Scaling
from tuner.schedules.scheme import Case, CriticalPath, Floats, Integers


class Chimera:
    """2f pipes per group: every rank holds 2f stages, so weights are kept 2f times."""

    name = "chimera"
    synchronous = True
    eager_opt = True
    pipes_overlap = True
    chunks = 1
    splits_backward = False

    def variants(self, depth: int, *, exhaustive: bool) -> list[tuple[Scaling, int]]:
        scalings: list[tuple[Scaling, int]] = [("direct", 1), ("doubling", 1), ("halving", 1)]
        if exhaustive:
            half = depth // 2
            scalings += [("direct", pairs) for pairs in range(2, half + 1) if half % pairs == 0]
        return scalings

    def illegal_depth(self, depth: int) -> str | None:
        return None if depth % 2 == 0 else f"chimera needs an even depth, and D = {depth}"

    def smallest_micro_batches(self, depth: int) -> int:
        return depth

    def illegal(self, depth: int, micro_batches: int, *, scaling: Scaling, pipe_pairs: int) -> str | None:
        units, rest = divmod(micro_batches, depth)
        if rest and (scaling != "direct" or pipe_pairs > 1):
            return (
                f"{scaling} with {2 * pipe_pairs} pipes needs D to divide N, "
                f"and N = {micro_batches}, D = {depth}"
            )
        if scaling != "direct" and units < 2:
            return f"{scaling} is a way to run N > D, and N = {micro_batches}, D = {depth}"
        if scaling == "doubling" and units % 2:
            return f"doubling needs an even N/D for its closed form, and N/D = {units}"
        return None

    def placement(self, depth: int, pipe_pairs: int) -> Integers:
        """Down pipe i starts on rank i·D/f and wraps; up pipe i is its reverse."""
        down = (np.arange(depth)[None, :] + np.arange(pipe_pairs)[:, None] * (depth // pipe_pairs)) % depth
        return np.stack([down, down[:, ::-1]], axis=1).reshape(2 * pipe_pairs, depth).astype(np.int64)

    def shares(self, case: Case) -> Integers:
        """As even as possible unit by unit; the remainder goes to down 0, up 0, down 1, ..."""
        pipes = np.arange(2 * case.pipe_pairs)
        units, rest = np.divmod(case.micro_batches, case.depth)
        return units[:, None] * self._split(np.full_like(rest, case.depth), pipes) + self._split(rest, pipes)

    def critical_path(self, case: Case) -> CriticalPath:
        if case.scaling == "direct":
            return _direct(case)
        return _doubling(case) if case.scaling == "doubling" else _halving(case)

    def live(self, case: Case) -> Floats:
        """min(share of a unit, D − s) per pipe; doubling min(D, 3D/2 − s), halving half of that."""
        left = (case.depth - np.arange(case.depth))[None, None, :]
        if case.scaling == "direct":
            unit = self._split(np.minimum(case.micro_batches, case.depth), np.arange(2 * case.pipe_pairs))
            return np.minimum(unit[:, :, None], left).astype(np.float64)
        doubled = np.minimum(case.depth, case.depth // 2 + left).astype(np.float64)
        alive = np.broadcast_to(doubled, (len(case.micro_batches), 2, case.depth))
        return alive if case.scaling == "doubling" else alive / 2

    def moments(self, case: Case) -> Floats:
        """The stages of a rank are fullest together."""
        return self.live(case)[None]

    def pending(self, case: Case) -> Floats:
        """None: a backward is one operation."""
        return np.zeros_like(self.live(case))[None]

    def weight_versions(self, depth: int) -> Integers:
        return np.ones(depth, dtype=np.int64)

    @staticmethod
    def _split(count: Integers, pipes: Integers) -> Integers:
        return (count[:, None] + len(pipes) - 1 - pipes[None, :]) // len(pipes)


def _direct(case: Case) -> CriticalPath:
    depth, pairs = case.depth, case.pipe_pairs
    units = -(-case.micro_batches // depth)
    last = case.micro_batches - (units - 1) * depth
    last = np.minimum(depth, last + last % 2)
    longer = case.backward_s >= case.forward_s
    extra = depth / pairs - 2
    shorter = units * depth - extra * (units - 1)
    more = units * depth + extra * units - (depth - last)
    forwards, backwards = np.where(longer, shorter, more), np.where(longer, more, shorter)
    return CriticalPath(forwards.astype(np.float64), backwards.astype(np.float64))


def _doubling(case: Case) -> CriticalPath:
    """First bracket, then the term repeated for each further doubled unit, each picked by its value."""
    forward, backward = case.forward_s, case.backward_s
    units = case.micro_batches / case.depth
    first = _largest(forward, backward, [(0.5, 0.5), (-1, 1), (1, 0)])
    later = _largest(forward, backward, [(0, 0), (-2, 1), (1, -1)])
    return _with_bubbles(case, first, later, repeats=units / 2 - 1)


def _halving(case: Case) -> CriticalPath:
    first = _largest(case.forward_s, case.backward_s, [(1, 0), (0, 0.5)])
    later = _largest(case.forward_s, case.backward_s, [(-1, 0.5), (1, -0.5)])
    return _with_bubbles(case, first, later, repeats=case.micro_batches / case.depth - 1)


def _largest(forward: Floats, backward: Floats, terms: list[tuple[float, float]]) -> Floats:
    """Coefficients [b, 2] of the largest of the terms a·F + b·B."""
    coefficients = np.array(terms, dtype=np.float64)
    values = forward[:, None] * coefficients[:, 0] + backward[:, None] * coefficients[:, 1]
    picked: Floats = coefficients[values.argmax(axis=1)]
    return picked


def _with_bubbles(case: Case, first: Floats, later: Floats, *, repeats: Floats) -> CriticalPath:
    bubbles = (case.depth - 2) * (first + repeats[:, None] * later)
    work = case.micro_batches.astype(np.float64)
    return CriticalPath(work + bubbles[:, 0], work + bubbles[:, 1])
