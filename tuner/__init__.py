"""What to run: pure answers computed from documents.

For notebooks and programs, five names that stay as they are (`tuner.interface` has their words):

    from tuner import plan, simulate, score
    answer = plan("bert-48", cluster="piz-daint", devices=32, mini_batch_size=512)
    answer.chosen.width, answer.chosen.depth

Nothing is imported until a name is used.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.interface import calibrate, export, plan, score, simulate

__all__ = ["calibrate", "export", "plan", "score", "simulate"]


class _Package(ModuleType):
    """The package: importing the module `tuner.plan` must not put it where the function of that name is."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in __all__ or not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("tuner.interface"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


sys.modules[__name__].__class__ = _Package
