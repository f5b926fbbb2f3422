"""`chimera serve`: where does the service listen?"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, NoReturn

import click

from cli.errors import DONE, NOT_ANSWERED, UnavailableError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from types import FrameType

    import uvicorn

    from api.service import Service
    from cli.beside import WorkerBeside


THREADS_S = 2.0
"""How long what runs in threads may take to end when everything else has."""


@click.command(epilog="\b\nExample:\n  chimera serve --port 0")
@click.option(
    "--host",
    metavar="ADDRESS",
    show_default="CHIMERA_HOST, else 127.0.0.1",
    help="A loopback address, unless every request needs a key.",
)
@click.option("--port", type=int, show_default="CHIMERA_PORT, else 8000", help="0 takes a free port.")
@click.option(
    "--database-url",
    metavar="URL",
    show_default="CHIMERA_DATABASE_URL, else an SQLite file in your data folder",
    help="sqlite:///FILE or postgresql://USER@HOST/NAME.",
)
@click.option("--with-worker", is_flag=True, help="Also do the jobs of pool `default` on this machine.")
@click.option("--json", "as_json", is_flag=True, help="Print the address as one JSON document.")
def serve(
    *, host: str | None, port: int | None, database_url: str | None, with_worker: bool, as_json: bool
) -> int:
    """Answer over REST and show reports, until interrupted."""
    from importlib.util import find_spec

    import uvicorn

    from api.app import check_bind, create_app
    from api.operations.logs import write_logs
    from api.settings import Settings

    if with_worker and find_spec("torch") is None:
        raise UnavailableError(
            "--with-worker needs torch: pip install 'chimera-tuner[executor]', or in a checkout: make setup"
        )
    settings = Settings.from_environment(host=host, port=port, database_url=database_url)
    check_bind(settings.host, keys_are_required=settings.keys_are_required)
    write_logs(settings)
    with _bind(settings.host, settings.port) as listener:
        app = create_app(settings, with_worker=with_worker)
        config = uvicorn.Config(
            app,
            root_path=settings.root_path,
            # The application itself asks whom it may believe.
            proxy_headers=False,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=math.ceil(settings.shutdown_seconds),
        )
        # Who hears where to call may also ask to stop from then on: as ever a clean end.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _leave)
        # Whoever started the process reads this line from a pipe, and reads it now.
        print(_address(listener, as_json), flush=True)
        let_go = app.state.service.bell.close
        beside = _worker_beside(app.state.service, listener) if with_worker else None
        return _run(uvicorn.Server(config), listener, let_go=let_go, beside=beside)


def _worker_beside(service: Service, listener: socket.socket) -> WorkerBeside:
    from api.access.key_files import worker_key
    from api.operations.logs import is_text
    from cli.beside import WorkerBeside

    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    key = worker_key(service.database, now=service.clock())
    return WorkerBeside(_url(host, port), key=key, as_json=not is_text(service.settings))


def _bind(host: str, port: int) -> socket.socket:
    import socket

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise UnavailableError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; --port 0 takes a free port"
        ) from None
    # asyncio sets this only on sockets that name their protocol, which these do not. Without it the second
    # part of every answer waits 40 ms for the client to confirm the first. Accepted connections inherit it.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _address(listener: socket.socket, as_json: bool) -> str:
    host, port = listener.getsockname()[:2]
    url = _url(host, port)
    return (
        json.dumps({"url": url, "host": host, "port": port})
        if as_json
        else f"Listening on {url} (Ctrl+C stops)"
    )


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _run(
    server: uvicorn.Server,
    listener: socket.socket,
    *,
    let_go: Callable[[], None],
    beside: WorkerBeside | None,
) -> int:
    # uvicorn finishes what is in flight, for some time, then raises the signal again, which `serve` awaits.
    stop = server.handle_exit
    asked: list[int] = []

    def stop_waiting(number: int, frame: FrameType | None) -> None:
        if asked:
            # Whoever asks twice does not want to wait. What was not committed never happened, and the kernel
            # ends a worker beside.
            os._exit(128 + number)
        asked.append(number)
        # Workers that wait for a job, and who follows a study, would keep it in flight for half a minute.
        let_go()
        if beside is None:
            stop(number, frame)
        else:
            # It gives its job back, which somebody has to hear.
            beside.ask_to_leave(then=lambda: stop(number, frame))

    # The hook that uvicorn has: its own server is a class that is imported where it is needed.
    server.handle_exit = stop_waiting  # type: ignore[method-assign,assignment]
    if beside is not None:
        beside.start()
    try:
        server.run(sockets=[listener])
    finally:
        if beside is not None:
            beside.end()
        _leave_behind(code=DONE if server.started else NOT_ANSWERED)
    return DONE if server.started else NOT_ANSWERED


def _leave(*_: object) -> NoReturn:
    sys.exit(DONE)


def _leave_behind(*, code: int) -> None:
    """End now if a plan is still computed for a request that was cut off: it would keep the process."""
    until = time.monotonic() + THREADS_S
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                for stream in (sys.stdout, sys.stderr):
                    stream.flush()
                os._exit(code)
