"""How long do `chimera --help` and `chimera plan` take, beside a fixed piece of work on the same machine?

    .venv/bin/python -P benchmarks/command_speed.py [REPEATS]

Every row has the median wall time of the whole command and its ratio to the reference loop, which tells a
slow change from a slow machine. Limits: --help 0.2 s, plan --help 0.3 s; 2,048 devices 0.5 s of search and
3 s in all; 65,536 devices 2 s of search.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time

CHIMERA = (sys.executable, "-P", "-m", "cli.main")
GPT2 = ("plan", "--model", "gpt2-64", "--json")

CASES: dict[str, tuple[str, ...]] = {
    "python -c pass": (sys.executable, "-P", "-c", "pass"),
    "chimera --help": (*CHIMERA, "--help"),
    "chimera plan --help": (*CHIMERA, "plan", "--help"),
    "plan bert-48, 32 devices": (
        *CHIMERA, "plan", "--model", "bert-48", "--cluster", "piz-daint", "--devices", "32",
        "--mini-batch-size", "512", "--json",
    ),
    "plan gpt2-64, 2,048 devices, greedy": (
        *CHIMERA, *GPT2, "--cluster", "piz-daint", "--devices", "2048", "--mini-batch-size", "2048",
    ),
    "plan gpt2-64, 2,048 devices, exhaustive": (
        *CHIMERA, *GPT2, "--cluster", "piz-daint", "--devices", "2048", "--mini-batch-size", "2048",
        "--search", "exhaustive",
    ),
    "plan gpt2-64, 65,536 devices, exhaustive": (
        *CHIMERA, *GPT2, "--cluster", "dgx-a100", "--devices", "65536", "--mini-batch-size", "65536",
        "--search", "exhaustive",
    ),
}  # fmt: skip


def main() -> None:
    """Print a row for each command."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    reference_s = statistics.median(time_reference_loop() for _ in range(repeats))
    print(f"{'':42}{'wall s':>8}{'search s':>10}{'x reference':>13}")
    print(f"{'reference loop (3 million additions)':42}{reference_s:8.3f}{'':10}{1:13.2f}")
    for name, command in CASES.items():
        times = [run(command) for _ in range(repeats)]
        wall_s, search_s = (statistics.median(column) for column in zip(*times, strict=True))
        shown = f"{search_s:10.3f}" if search_s else " " * 10
        print(f"{name:42}{wall_s:8.3f}{shown}{wall_s / reference_s:13.2f}")


def time_reference_loop() -> float:
    """Seconds for work that no change of ours can make faster or slower."""
    start_s = time.perf_counter()
    total = 0
    for number in range(3_000_000):
        total += number
    return time.perf_counter() - start_s


def run(command: tuple[str, ...]) -> tuple[float, float]:
    """Wall seconds of one command, started in an empty folder, and the seconds of search it reports."""
    with tempfile.TemporaryDirectory() as folder:
        start_s = time.perf_counter()
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        wall_s = time.perf_counter() - start_s
    return wall_s, float(json.loads(result.stdout)["search_s"]) if "--json" in command else 0.0


if __name__ == "__main__":
    main()
