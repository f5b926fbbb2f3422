"""Which process is which rank of which pipeline group, and which layers make a stage?"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

from executor.errors import ConfigurationError
from tuner.configuration import Configuration
from tuner.partition import even_counts

RankOrder = Literal["pipe_major", "data_major"]
"""Neighbours in global rank are neighbours in a pipeline, or hold the same stages in different groups."""


@dataclass(frozen=True)
class Layout:
    """Where one process stands among the width * depth of them."""

    configuration: Configuration
    group: int
    """Its pipeline group, of `width`."""
    rank: int
    """Its rank in the program, of `depth`."""
    order: RankOrder = "pipe_major"

    @classmethod
    def of_process(
        cls, configuration: Configuration, number: int, *, processes: int, order: RankOrder = "pipe_major"
    ) -> "Layout":
        """The place of global rank `number`; raises ConfigurationError unless W·D processes were started."""
        width, depth = configuration.width, configuration.depth
        if processes != width * depth:
            raise ConfigurationError(
                f"W={width} x D={depth} needs {width * depth} processes, and {processes} were started: start "
                f"{width * depth} (torchrun --nproc-per-node), or choose another width or depth"
            )
        if order == "pipe_major":
            group, rank = divmod(number, depth)
        else:
            rank, group = divmod(number, width)
        return cls(configuration, group, rank, order)

    def global_rank(self, group: int, rank: int) -> int:
        """The process that is `rank` in pipeline group `group`."""
        configuration = self.configuration
        if self.order == "pipe_major":
            return group * configuration.depth + rank
        return rank * configuration.width + group

    @property
    def own_group(self) -> tuple[int, ...]:
        """Global ranks of this process's pipeline group, by rank in the program."""
        return self.groups[self.group]

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Global ranks of every pipeline group, by rank in the program."""
        width, depth = self.configuration.width, self.configuration.depth
        return tuple(tuple(self.global_rank(group, rank) for rank in range(depth)) for group in range(width))


def cut_layers(layers: int, stages: int, partition: Sequence[int] | None = None) -> tuple[range, ...]:
    """The layers of every stage, contiguous, every layer once; even unless `partition` has their numbers.

    Raises ConfigurationError where a stage would be empty or the numbers do not add up.
    """
    if partition is None:
        if not 1 <= stages <= layers:
            raise ConfigurationError(
                f"{layers} layers cannot be cut into {stages} stages: use at most {layers} (depth * chunks)"
            )
        partition = even_counts(layers, stages)
    if len(partition) != stages or sum(partition) != layers or min(partition, default=0) < 1:
        raise ConfigurationError(
            f"the partition {list(partition)} has {len(partition)} stages and {sum(partition)} layers; "
            f"{stages} stages of at least one layer, {layers} layers in all, are needed"
        )
    ends = accumulate(partition, initial=0)
    return tuple(range(start, stop) for start, stop in pairwise(ends))
