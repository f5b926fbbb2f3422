"""A real Slurm on this machine, for as long as a block lasts: a controller, and one node with fake GPUs.

Everything is in one folder; the GPUs are plain files. Needs root and Debian's slurm-wlm (`make test-slurm`).
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol")
GPUS = 4
CPUS = 8
"""As Slurm is told, however many there are."""
_READY_S = 30.0

CONFIGURATION = """
ClusterName=chimera
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=0,bf_interval=2
GresTypes=gpu
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} Gres=gpu:{gpus} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes={host} MaxTime=1 State=UP
"""


def missing_programs() -> list[str]:
    """What must be installed first."""
    return [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]


@contextmanager
def slurm_site() -> Iterator[dict[str, str]]:
    """The environment in which Slurm's commands find it; nothing is left afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="chimera-slurm-", dir="/tmp"))
    folder.chmod(0o755)
    _write_configuration(folder)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": _PATH}
        munge = ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket"]
        munge += [f"--{name}-file={folder}/munge.{name}" for name in ("key", "log", "pid", "seed")]
        for command in (munge, ["slurmctld", "-D"], ["slurmd", "-D"]):
            stack.enter_context(_daemon(command, folder, environment))
            if command is munge:
                _await((folder / "munge.socket").exists, command, folder)
        _await(lambda: "idle" in _said(["sinfo", "-h", "-o", "%T"], environment), ["sinfo"], folder)
        yield {"SLURM_CONF": environment["SLURM_CONF"], "PATH": _PATH}


_PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def _write_configuration(folder: Path) -> None:
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o600)
    files = [folder / f"gpu{number}" for number in range(GPUS)]
    for file in files:
        file.touch()
    gres = "\n".join(f"Name=gpu File={file}" for file in files)
    (folder / "gres.conf").write_text(gres + "\n", encoding="ascii")
    ports = [_free_port() for _ in range(2)]
    text = CONFIGURATION.format(
        host=socket.gethostname().partition(".")[0],
        folder=folder,
        controller_port=ports[0],
        node_port=ports[1],
        cpus=CPUS,
        gpus=GPUS,
    )
    (folder / "slurm.conf").write_text(text, encoding="ascii")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _daemon(command: list[str], folder: Path, environment: dict[str, str]) -> Iterator[None]:
    with (folder / f"{command[0]}.out").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _said(command: list[str], environment: dict[str, str]) -> str:
    asked = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=30)
    return asked.stdout


def _await(ready: Callable[[], bool], command: list[str], folder: Path) -> None:
    deadline = time.monotonic() + _READY_S
    while not ready():
        if time.monotonic() > deadline:
            logs = "\n".join(
                f"== {log.name}\n{log.read_text(errors='replace')[-2000:]}"
                for log in sorted(folder.glob("*.log")) + sorted(folder.glob("*.out"))
            )
            raise TimeoutError(f"{command[0]} was not ready after {_READY_S:g} s\n{logs}")
        time.sleep(0.1)


if __name__ == "__main__":
    with slurm_site() as found:
        sys.stdout.write(f"SLURM_CONF={found['SLURM_CONF']}\n")
        sys.stdout.flush()
        sys.stdin.read()
