"""What did a search find? Configurations with what was computed for them, and what was refused."""

from dataclasses import dataclass

from tuner.configuration import Configuration
from tuner.evaluated import Evaluated, Rank
from tuner.rejection import MemoryRefusal, Refusal
from tuner.space import Layout


@dataclass(frozen=True)
class Choice:
    """One configuration with what was computed for it."""

    evaluated: Evaluated
    index: int

    @property
    def iteration_s(self) -> float:
        """Time of one iteration by equation 1."""
        return float(self.evaluated.iteration_s[self.index])

    @property
    def work_s(self) -> float:
        """Forwards and backwards of the busiest rank: no schedule is faster."""
        return float(self.evaluated.times.work_s[self.index])

    @property
    def peak_bytes(self) -> int:
        """Memory of the fullest rank."""
        return int(self.evaluated.peak_bytes[self.index])

    @property
    def layout(self) -> Layout:
        """Its (W, D)."""
        return self.evaluated.variant.layout

    @property
    def configuration(self) -> Configuration:
        """What would run."""
        return self.evaluated.configuration(self.index)

    def rank(self) -> Rank:
        """Sorts the fastest first, between equals the one with less memory and the simpler one."""
        return self.evaluated.ranks[self.index]


@dataclass(frozen=True)
class Found:
    """The outcome of a search."""

    fitting: tuple[Choice, ...]
    """Fastest first."""
    refused: tuple[Refusal | MemoryRefusal, ...]
