"""A process that computes for this one, seen from here."""

import os
import signal
import subprocess
import sys
from multiprocessing.connection import Pipe

LONGEST_S = 86_400.0
"""No computation takes longer."""

_KEPT_HERE = ("CHIMERA_", "PG")
"""Variables with the addresses, keys and passwords of the service: who computes needs none."""


class LateError(Exception):
    """There was no answer in time."""


class DiedError(Exception):
    """The process is gone, and there is no answer."""


class Child:
    """`python -m api.computing.process`; it has one end of a pair of sockets, and no file of this one."""

    def __init__(self) -> None:
        """Start it; what is asked before it is ready waits. Raises OSError."""
        self._connection, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "api.computing.process", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                env={name: value for name, value in os.environ.items() if not name.startswith(_KEPT_HERE)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def is_there(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    @property
    def how_it_ended(self) -> str:
        """In words, once it has."""
        code = self._process.wait()
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def ask(self, message: bytes, *, within_s: float) -> tuple[bytes, bytes]:
        """The two parts of its answer; raises LateError or DiedError, and it is ended then."""
        try:
            self._connection.send_bytes(message)
            if not self._connection.poll(min(max(0.0, within_s), LONGEST_S)):
                raise LateError
            return self._connection.recv_bytes(), self._connection.recv_bytes()
        except (EOFError, OSError):
            self.kill()
            raise DiedError from None
        except BaseException:
            # Its answer would be taken for that to the next question.
            self.kill()
            raise

    def kill(self) -> None:
        """End it, whatever it does; who waits for its answer hears that it died."""
        self._process.kill()
        self._process.wait()
