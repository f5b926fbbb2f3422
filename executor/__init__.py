"""Do it on hardware: the only package that imports torch.

For programs of the user's own: `Pipeline` trains a list of layers with W·D processes, see its docstring and
examples/train_gpt.py. Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from executor.models.loss import Loss, cross_entropy, mean_squared_error
    from executor.running.assembly import Settings
    from executor.running.pipeline import Pipeline
    from tuner.configuration import Configuration

__all__ = ["Configuration", "Loss", "Pipeline", "Settings", "cross_entropy", "mean_squared_error"]

_HOMES = {
    "Configuration": "tuner.configuration",
    "Loss": "executor.models.loss",
    "Pipeline": "executor.running.pipeline",
    "Settings": "executor.running.assembly",
    "cross_entropy": "executor.models.loss",
    "mean_squared_error": "executor.models.loss",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
