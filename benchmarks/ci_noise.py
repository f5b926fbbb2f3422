"""How often does `chimera ci` cry wolf on this machine, and does it see a layer made 20 % slower?

Accepts a model, checks it so many times with its layers timed anew, then with more work in one of its layers:

    .venv/bin/python -P -m benchmarks.ci_noise --runs 30
"""

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path

from cli.main import run

_MANIFEST = """
[[models]]
name = "model"
model = "model.py:Model"
on = "cpu"
cluster = "local-cpu"
devices = 2
mini_batch_size = 16
micro_batch_sizes = [1, 2, 4]
budget = 0.2
"""
_MODEL = """
import torch
from torch import nn

WORK = {work}

class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.ModuleList(nn.Linear(384, 384) for _ in range(12))

    def forward(self, values):
        for number in range(WORK):
            values = torch.tanh(self.inner[number % 10](values))
        return values

class Model:
    def __init__(self):
        self.layers = [nn.Linear(384, 384), Mixing(), nn.LayerNorm(384), nn.Linear(384, 384)]
        self.loss = nn.functional.mse_loss

    def batch(self, samples, *, seed):
        return torch.randn(samples, 64, 384), torch.randn(samples, 64, 384)
"""
"""Ten products a sample, or twelve: 20 % more, of the same parameters."""


def main() -> None:
    """Print how many checks of each kind failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--planted", type=int, default=5, help="Checks of the slower model.")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        Path("chimera.toml").write_text(_MANIFEST, encoding="utf-8")
        Path("model.py").write_text(_MODEL.format(work=10), encoding="utf-8")
        _check("--accept")
        alarms = [_check("--again") for _ in range(asked.runs)]
        Path("slower.py").write_text(_MODEL.format(work=12), encoding="utf-8")
        manifest = _MANIFEST.replace("model.py", "slower.py")
        Path("chimera.toml").write_text(manifest, encoding="utf-8")
        caught = [_check() for _ in range(asked.planted)]
    false = [found for found in alarms if found]
    seen = [found for found in caught if any("layers.1 is" in message for message in found)]
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{len(false)} false alarms in {len(alarms)} checks of an unchanged model")
    print(f"{len(seen)} of {len(caught)} checks named the layer made 20 % slower")
    for found in [*false, *caught]:
        print("  " + "; ".join(found)[:400])


def _check(*options: str) -> list[str]:
    """The regressions that a check told."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        run(["ci", "--json", *options])
    (model,) = json.loads(out.getvalue())["models"]
    print(" ".join(["check", *options]) + f": {model['status']}", file=sys.stderr, flush=True)
    return [change["message"] for change in model["changes"] if change["regression"]]


if __name__ == "__main__":
    main()
