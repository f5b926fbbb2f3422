"""How are ranks run on this machine? In processes under a supervisor that ends all of them, whatever happens.

    caller --lifeline--> supervisor --> agent (torch elastic) --> fork server --> ranks

The kernel kills each of them when its parent ends, and the supervisor adopts what is orphaned, so that
nothing stays behind when one is killed; when the caller ends, the supervisor sees its lifeline cut.
"""

from __future__ import annotations

from executor.errors import TrialError
from executor.launchers.asking import Tell, ask
from executor.launchers.findings import read_findings
from executor.launchers.launch import Launch
from executor.launchers.outcome import Outcome

_SUPERVISOR_S = 30.0
"""So much longer than the run itself the supervisor may take: to start, to end everything, to answer."""


def launch_locally(launch: Launch) -> Outcome:
    """Run every rank and say how it ended; when this returns, or raises, no process or file is left.

    Raises TrialError where there is no device, and if the supervisor itself could not answer. Whatever
    interrupts this call ends the run.
    """
    if launch.device == "cuda":
        _find_cuda()
    within_s = launch.limits.timeout_s + _SUPERVISOR_S
    return read_findings(ask("executor.launchers.supervisor", launch, within_s=within_s), launch)


def _find_cuda() -> None:
    import torch

    if not torch.cuda.device_count():
        raise TrialError(
            "torch sees no CUDA device on this machine: is it built for CUDA, and does CUDA_VISIBLE_DEVICES "
            "name one?"
        )


class LocalLauncher:
    """`executor.launchers.launcher.Launcher` for this machine."""

    is_here = True

    def run(self, launch: Launch, tell: Tell | None = None) -> Outcome:  # noqa: ARG002 (nothing to wait for)
        """See launch_locally."""
        return launch_locally(launch)
