"""What does a user's factory say of its model, asked where it does no harm: in a process of its own?

`python -P -m executor.trials.factory_facts PARENT ANSWER NAME SEED`: the id of the process that asks, and the
path of a memory file for the answer. Whatever the factory prints goes to stderr, and processes that it leaves
behind are ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from executor.errors import ConfigurationError, ModelError
from executor.launchers.launch import MemoryFile
from executor.launchers.outcome import signal_name
from executor.launchers.processes import die_with_parent

Tied = tuple[tuple[tuple[int, str], ...], ...]


@dataclass(frozen=True)
class FactoryFacts:
    """What has to be known before any rank is launched."""

    layers: int
    tied: Tied
    """(layer number, parameter name) of the parameters that are one, for each group."""


def ask_factory(name: str, *, seed: int, timeout_s: float) -> FactoryFacts:
    """Have the factory called; raises ConfigurationError or ModelError naming it and what it did instead."""
    answer = MemoryFile("chimera-factory")
    command = [sys.executable, "-P", "-m", "executor.trials.factory_facts"]
    command += [str(os.getpid()), answer.path, name, str(seed)]
    asked = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=2, start_new_session=True)
    try:
        status = asked.wait(timeout_s)
        told = json.loads(answer.read() or b"null")
    except subprocess.TimeoutExpired:
        raise ModelError(f"the factory {name} gave no model within {timeout_s:g} s") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(asked.pid, signal.SIGKILL)
        asked.wait()
        answer.close()
    if told is None:
        ended = f"by {signal_name(-status)}" if status < 0 else f"with exit code {status}"
        raise ModelError(f"the factory {name} ended its process {ended}: it must return layers")
    if "error" in told:
        raise (ConfigurationError if told["error"] == "ConfigurationError" else ModelError)(told["message"])
    return _read(told)


def _read(told: dict[str, Any]) -> FactoryFacts:
    tied = tuple(tuple((int(layer), str(name)) for layer, name in group) for group in told["tied"])
    return FactoryFacts(told["layers"], tied)


def main() -> None:
    """Call the factory, and write down what it says."""
    parent, answer, name, seed = sys.argv[1:]
    die_with_parent(int(parent))
    try:
        told = _call(name, int(seed))
    except SystemExit as leaving:
        told = _refused(f"the factory {name} called exit({leaving.code!r}): it must return layers")
    except ConfigurationError as error:
        told = _refused(error, kind="ConfigurationError")
    except ModelError as error:
        told = _refused(error)
    except Exception as error:  # noqa: BLE001 (whatever its code raises is told)
        told = _refused(f"the model of the factory {name} raised {type(error).__name__}: {error}")
    Path(answer).write_text(json.dumps(told), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)


def _refused(error: object, kind: str = "ModelError") -> dict[str, Any]:
    return {"error": kind, "message": str(error)}


def _call(name: str, seed: int) -> dict[str, Any]:
    from executor.models.factories import FactoryModel

    model = FactoryModel(name, seed=seed)
    model.batch(1, seed=seed)  # raises where the factory gives no data
    return asdict(FactoryFacts(len(model), model.tied))


if __name__ == "__main__":
    main()
