"""The schedules that can be planned, by name; adding one is a module and a line here."""

from tuner.errors import UnsupportedOptionError
from tuner.schedules.chimera import Chimera
from tuner.schedules.gems import Gems
from tuner.schedules.interleaved import Interleaved
from tuner.schedules.scheme import Case, CriticalPath, Scheme
from tuner.schedules.single import Dapple, GPipe, PipeDream, PipeDream2BW
from tuner.schedules.two_way import ChimeraSplit, DualPipe
from tuner.schedules.zero_bubble import ZbH1, ZbV

__all__ = ["SCHEMES", "SYNCHRONOUS", "Case", "CriticalPath", "Scheme", "find_scheme"]

SCHEMES: dict[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        Chimera(),
        Dapple(),
        GPipe(),
        Gems(),
        Interleaved(),
        ZbH1(),
        ZbV(),
        DualPipe(),
        ChimeraSplit(),
        PipeDream(),
        PipeDream2BW(),
    )
}
"""In the order of preference between equals."""

SYNCHRONOUS = tuple(name for name, scheme in SCHEMES.items() if scheme.synchronous)
"""What is considered when no schedule is named."""


def find_scheme(name: str) -> Scheme:
    """The scheme of that name; raises UnsupportedOptionError for one that is known but not planned yet."""
    if name not in SCHEMES:
        raise UnsupportedOptionError(
            f"the schedule {name} cannot be planned yet; choose from {', '.join(SCHEMES)}"
        )
    return SCHEMES[name]
