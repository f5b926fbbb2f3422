"""How do replicas that have drifted apart come together again? By averages of their weights.

Their optimizer states stay each replica's own.
"""

import torch
from torch import Tensor

from executor.compression.wire import Wire
from executor.weights.groups import ParameterGroups
from executor.weights.holdings import RankWeights
from executor.weights.steps import WholeSteps


class WeightAverage:
    """Averages the weights of a rank with those of its replicas."""

    def __init__(
        self, weights: RankWeights, groups: ParameterGroups, *, wire: Wire, every: int | None = None
    ) -> None:
        """`every` is in steps; None never averages."""
        self._weights = weights
        self._groups = groups
        self._wire = wire
        self._every = every

    @torch.no_grad()
    def after(self, steps: int) -> None:
        """After so many steps; all replicas call this."""
        if self._every is None or steps % self._every:
            return
        for number, state in self._weights.groups.items():
            process_group = self._groups.process_group(number)
            if process_group is None or not isinstance(state.steps, WholeSteps):
                continue
            targets: dict[str, Tensor] = {name: target.data for name, target in state.steps.targets.items()}
            for dtype in dict.fromkeys(target.dtype for target in targets.values()):
                mine = [target for target in targets.values() if target.dtype == dtype]
                flat = torch.cat([target.reshape(-1) for target in mine])
                self._wire.all_reduce(flat, process_group).wait()
                flat /= process_group.size()
                pieces = torch.split(flat, [each.numel() for each in mine])
                for target, piece in zip(mine, pieces, strict=True):
                    target.copy_(piece.view_as(target))
            for name, leaf in state.leaves.items():
                leaf.copy_(targets[name])
