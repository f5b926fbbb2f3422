"""Which operation is a rank at? Told to its watchdog while a runtime runs, beside the times that are kept."""

from collections.abc import Sequence

from executor.launchers.progress import Progress
from executor.running.recording import Recording
from tuner.schedules.program import RECEIVES, SENDS, Op, Program


class WatchedRecording:
    """A recorder of `executor.running.runtime` that writes to the rank's progress and to a recording."""

    def __init__(self, recording: Recording, progress: Progress, *, ops: Sequence[Op]) -> None:
        self._recording, self._progress = recording, progress
        self._ops = [tuple(int(field) for field in op) for op in ops]

    def reach(self, event: int) -> None:
        """The rank comes to an event, whose input may be awaited."""
        self._progress.note(event, self._ops[event], waits=True)
        self._recording.reach(event)

    def begin(self, event: int) -> None:
        """The input is there."""
        self._progress.go_on()
        self._recording.begin(event)

    def end(self, event: int) -> None:
        """The event is done."""
        self._recording.end(event)


def event_operations(program: Program, rank: int) -> list[Op]:
    """The operation of each event of a rank (steps but SEND and RECV), of a fused pair the first."""
    return [step[0] for step in program.ranks[rank] if step[0].kind not in SENDS | RECEIVES]
