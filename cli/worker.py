"""`chimera worker`: which jobs of a service does this machine do?"""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from cli.errors import DONE, InputError, UnavailableError
from cli.launching import LAUNCHING, take_wanted
from cli.options import with_options

if TYPE_CHECKING:
    from executor.launchers.launcher import LauncherName
    from executor.launchers.wanted import Wanted
    from executor.worker.worker import Worker
    from tuner.messages import WorkerInventory

EXAMPLE = "chimera worker --url http://127.0.0.1:8000 --once"


_MOST_POOLS = 20
_POOL = "[A-Za-z0-9._-]{1,100}"


class Pools(click.ParamType[tuple[str, ...]]):
    """Names of pools as "a,b"."""

    name = "pools"

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Read the text; anything but 1 to 20 names of pools is a usage error."""
        words = value if isinstance(value, tuple) else tuple(word.strip() for word in value.split(","))
        if len(words) > _MOST_POOLS or not all(re.fullmatch(_POOL, word) for word in words):
            self.fail(
                f"{value[:100]!r} is not a list of pools such as a,b: each has 1 to 100 letters, digits, "
                f"dots, dashes or underscores, and {_MOST_POOLS} are the most",
                param,
                ctx,
            )
        return words


@click.command(epilog=f"\b\nExample:\n  {EXAMPLE}")
@click.option(
    "--url", envvar="CHIMERA_URL", default="http://127.0.0.1:8000", metavar="URL",
    show_default="CHIMERA_URL, else http://127.0.0.1:8000", help="Where the service is.",
)  # fmt: skip
@click.option(
    "--pool", "pools", type=Pools(), default="default", metavar="NAME,...", help="Takes jobs of these."
)
@click.option("--name", metavar="TEXT", show_default="the host's", help="What people call this worker.")
@click.option(
    "--accelerator", metavar="NAME",
    help="Data sheet of the accelerators, where they do not tell it (`chimera list accelerators`).",
)  # fmt: skip
@click.option(
    "--devices", type=click.IntRange(1, 1_000_000),
    help="How many accelerators of a cluster its trials may use, with --launcher slurm or ray.",
)  # fmt: skip
@with_options(LAUNCHING)
@click.option(
    "--poll", type=click.FloatRange(0, 30), default=5.0,
    help="Seconds a claim waits for a job, and an idle worker to leave.",
)  # fmt: skip
@click.option("--once", is_flag=True, help="Leave after one job.")
@click.option("--limit", type=click.FloatRange(1, 604_800), default=3600.0, help="Seconds any job may take.")
@click.option(
    "--budget", type=click.FloatRange(0, 3600), default=2.0, help="Seconds to repeat a layer at a size."
)
@click.option(
    "--drain", type=click.FloatRange(0, 604_800), default=3600.0,
    help="Seconds the job at hand may go on after SIGTERM; then, or at a second one, it is given back.",
)  # fmt: skip
@click.option(
    "--patience", type=click.FloatRange(0, 604_800), default=600.0,
    help="Seconds without an answer of the service until the worker gives up.",
)  # fmt: skip
@click.option(
    "--json", "as_json", is_flag=True, help="Log JSON lines on stderr; print one document at the end."
)
@click.option("--beside", type=int, hidden=True, help="Id of the process with which to end.")
def worker(*, as_json: bool, beside: int | None, **asked: Any) -> int:
    """Do jobs of a service until asked to leave.

    Measures models and links and runs trials, each in processes of its own. The key, of scope `work`, is in
    CHIMERA_API_KEY. SIGTERM lets it finish its job and leave.
    """
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise UnavailableError("a worker needs torch: pip install 'chimera-tuner[executor]'")
    _log(as_json)
    if beside is not None:
        from executor.launchers.processes import die_with_parent

        die_with_parent(beside)
    wanted = take_wanted(asked)
    made = _make(wanted=wanted, **asked)
    try:
        _run(made)
    finally:
        made.close()
    if as_json:
        click.echo(json.dumps({"worker": made.identifier, "jobs": dict(made.tally)}))
    return DONE


def _make(
    *,
    url: str,
    pools: tuple[str, ...],
    name: str | None,
    accelerator: str | None,
    devices: int | None,
    launcher: LauncherName,
    wanted: Wanted,
    poll: float,
    once: bool,
    limit: float,
    budget: float,
    drain: float,
    patience: float,
) -> Worker:
    from api.storage.identifiers import new_identifier
    from executor.worker.departure import Departure
    from executor.worker.surroundings import Surroundings
    from executor.worker.worker import Habits, Worker
    from tuner.client import ServiceClient

    key, departure = _key(), Departure(drain_s=drain)
    identifier = new_identifier(datetime.now(UTC))
    inventory = _inventory(
        identifier, name=name, pools=pools, accelerator=accelerator, devices=devices, launcher=launcher
    )
    return Worker(
        lambda pace: ServiceClient(url, key=key, patience_s=patience, pace=pace),
        inventory,
        here=Surroundings(
            inventory.devices, budget_s=budget, limit_s=limit, launcher=launcher, wanted=wanted
        ),
        departure=departure,
        habits=Habits(poll_s=poll, once=once),
    )


def _inventory(
    identifier: str,
    *,
    name: str | None,
    pools: tuple[str, ...],
    accelerator: str | None,
    devices: int | None,
    launcher: LauncherName,
) -> WorkerInventory:
    """What this machine has, or what a cluster is said to have."""
    from executor.errors import ConfigurationError
    from executor.launchers.launcher import find_launcher
    from executor.worker.inventory import offer_cluster, take_inventory

    try:
        if launcher == "local":
            if devices is not None:
                raise InputError(
                    "--devices is for --launcher slurm or ray: a worker counts those of its machine"
                )
            return take_inventory(identifier=identifier, name=name, pools=pools, accelerator=accelerator)
        find_launcher(launcher)
        if accelerator is None or devices is None:
            raise InputError(
                f"with --launcher {launcher} say what the cluster has: --accelerator NAME and --devices COUNT"
            )
        return offer_cluster(
            identifier=identifier, name=name, pools=pools, accelerator=accelerator, count=devices
        )
    except ConfigurationError as error:
        raise InputError(str(error)) from None


def _key() -> str:
    import os

    key = os.environ.get("CHIMERA_API_KEY", "").strip()
    if not key:
        raise InputError(
            "CHIMERA_API_KEY is not set: on the host of the service `chimera key create --name NAME --scopes "
            "work` makes a key for this worker"
        )
    return key


def _run(made: Worker) -> None:
    from tuner.client_errors import RefusedError

    try:
        made.run()
    except RefusedError as error:
        raise UnavailableError(f"the service refused this worker: {error}") from None


def _log(as_json: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _JsonLines() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    )
    logger = logging.getLogger("chimera.worker")
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.INFO)


class _JsonLines(logging.Formatter):
    """A line of the log as one JSON document, with the keys that the service's log has."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger and message, and the ids of the job and its study."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        ids = {name: getattr(record, name, None) for name in ("job_id", "study_id")}
        return json.dumps(line | {name: value for name, value in ids.items() if value is not None})
