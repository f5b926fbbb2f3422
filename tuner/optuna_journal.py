"""What does a study look like in Optuna's own storage? A journal, which optuna-dashboard opens as a file."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from optuna.storages.journal import BaseJournalBackend, JournalStorage

from tuner.memory_correction import corrected_bytes
from tuner.optuna_study import NAME, Space, make_study
from tuner.trials import Option, Trial

_WRITER = "chimera"


def journal(trials: Sequence[Trial], options: Sequence[Option], *, name: str = NAME) -> str:
    """The journal's text, a JSON document a line: the same rows give the same text.

    Read it with optuna.storages.JournalStorage over its JournalFileBackend.
    """
    space = Space([*(option.configuration for option in options), *(row.configuration for row in trials)])
    over = {
        option.configuration: needed / option.capacity_bytes - 1
        for option, needed in zip(options, corrected_bytes(trials, options).tolist(), strict=True)
    }
    kept = _InMemory()
    make_study(trials, space, seed=0, over=over, storage=JournalStorage(kept), name=name)
    return "".join(json.dumps(log | {"worker_id": _WRITER}, sort_keys=True) + "\n" for log in kept.logs)


class _InMemory(BaseJournalBackend):
    """A journal that is no file yet."""

    def __init__(self) -> None:
        self.logs: list[dict[str, Any]] = []

    def read_logs(self, log_number_from: int) -> Iterable[dict[str, Any]]:
        """What was appended from that number on."""
        return iter(self.logs[log_number_from:])

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Remember."""
        self.logs += logs
