"""A process that computes for the service: `python -m api.computing.process FD`, until FD is closed.

It is started with one end of a pair of sockets and nothing else of the service's. However the service ends,
the kernel closes the other end, and this process ends too, whatever it is doing.
"""

import gc
import os
import select
import signal
import sys
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread

from api.computing import wire

NICER = 3
"""Who reads comes before who plans, where both want a processor."""
_FIRST_TO_GO = 500
"""Where memory runs out the kernel should end this process rather than the service."""


def main() -> None:
    """Answer one question after the other."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # They reach a whole terminal or unit: the service still answers what is in flight, and ends this.
        signal.signal(number, signal.SIG_IGN)
    descriptor = int(sys.argv[1])
    Thread(target=_end_with_the_service, args=(descriptor,), daemon=True).start()
    with suppress(OSError):
        os.nice(NICER)
        Path("/proc/self/oom_score_adj").write_text(str(_FIRST_TO_GO))
    # While nobody waits yet; all else is loaded when it is asked for.
    import_module("api.computing.plans")
    gc.freeze()
    with Connection(descriptor) as service, suppress(EOFError, ConnectionError):
        while True:
            work = wire.unpack(service.recv_bytes())
            try:
                head, content = wire.tell(work())
            except Exception as error:  # noqa: BLE001  # it is raised in the service
                head, content = wire.tell_error(error)
            service.send_bytes(head)
            service.send_bytes(content)


def _end_with_the_service(descriptor: int) -> None:
    """Wait until the other end is closed, which nobody needs to ask for to be told."""
    closed = select.poll()
    closed.register(descriptor, 0)
    closed.poll()
    os._exit(0)


if __name__ == "__main__":
    main()
