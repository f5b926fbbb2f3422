"""Does the script that users copy train, stop, and go on under other layouts as if nothing had happened?"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "train_gpt.py"


def train(processes: int, *words: str, folder: Path) -> dict[int, float]:
    """Run the script under torchrun as its first lines say; the losses that it prints, by step."""
    launcher = (sys.executable, "-P", "-m", "torch.distributed.run", "--nproc-per-node", str(processes))
    ended = subprocess.run(
        (*launcher, "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", str(SCRIPT), *words),
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240.0,
    )
    assert ended.returncode == 0, ended.stderr
    return {int(step): float(loss) for step, loss in re.findall(r"step +(\d+) +loss ([\d.]+)", ended.stdout)}


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_training_goes_on_under_another_layout_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    """Losses fall, and those after the checkpoint are the ones of an uninterrupted run."""
    through = train(4, "--depth", "4", "--steps", "40", folder=tmp_path)
    first = train(4, "--depth", "4", "--steps", "20", "--save", "gpt.pt", folder=tmp_path)
    assert through[40] < through[20] == first[20]
    onward = ("--steps", "40", "--load", "gpt.pt")
    spread = train(4, "--depth", "2", "--width", "2", *onward, folder=tmp_path)
    alone = train(1, "--schedule", "gpipe", "--depth", "1", *onward, folder=tmp_path)
    assert spread[40] == pytest.approx(through[40], rel=1e-4)
    assert alone[40] == pytest.approx(through[40], rel=1e-4)
