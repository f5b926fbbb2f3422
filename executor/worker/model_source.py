"""Which model does a job mean, in the words of the executor?"""

from typing import Any

from tuner.errors import RequestError
from tuner.request import InlineModel


def model_source(model: str | InlineModel) -> tuple[str | dict[str, Any], str | None]:
    """The model as `open_model` takes it, and what it is to be called; raises RequestError for a profile."""
    if isinstance(model, str):
        return model, None
    if model.config is None:
        raise RequestError(
            "a profile has no weights to run: name the preset, or give the config.json it is of"
        )
    return {"config": model.config}, model.name
