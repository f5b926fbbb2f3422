"""How does torch's elastic agent run the ranks? Once, since running out of memory is a result as well."""

from __future__ import annotations

import uuid
from typing import Any

from torch.distributed.elastic.multiprocessing import LogsDest, LogsSpecs
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from executor.launchers.launch import read_launch
from executor.launchers.rank_process import rank_main

_POLL_S = 0.03
_START_UP_S = 300


class OwnLogs(LogsSpecs):
    """The ranks open their logs themselves, so that a full disk does not keep them from starting."""

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """Redirect nothing."""
        nowhere = dict.fromkeys(envs, "")
        return LogsDest(nowhere, nowhere, nowhere, nowhere, nowhere)

    @property
    def root_log_dir(self) -> str:
        """There is none."""
        return ""


def run_ranks(launch_path: str, area_path: str) -> dict[str, Any]:
    """`results` of all ranks as JSON texts, in order, or the `exit_codes` that the agent saw."""
    launch = read_launch(launch_path)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=launch.ranks,
        run_id=uuid.uuid4().hex,
        max_restarts=0,
        rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0",
        rdzv_configs={"timeout": _START_UP_S, "is_host": True},
        local_addr="127.0.0.1",
        start_method="forkserver",
        monitor_interval=_POLL_S,
        logs_specs=OwnLogs(),
    )
    try:
        returned = elastic_launch(config, rank_main)(launch_path, area_path)
    except ChildFailedError as error:
        return {"exit_codes": {rank: failure.exitcode for rank, failure in error.failures.items()}}
    return {"results": [returned[rank] for rank in range(launch.ranks)]}
