"""How is a model profiled for the service?"""

from __future__ import annotations

from typing import Any

from executor.measuring.profiling import Plan, take_profile
from executor.models.sources import describe_model, open_model
from executor.worker.answer import Answer, Tell
from executor.worker.surroundings import Surroundings, torch_device
from tuner.assignments import DEFAULT_ATTENTION, DEFAULT_PRECISION, ProfileModel, ProfileModelResult
from tuner.errors import RequestError
from tuner.request import InlineModel


def profile_model(asked: ProfileModel, here: Surroundings, tell: Tell) -> Answer:
    """Measure every layer; raises ConfigurationError, ModelError or TunerError for what cannot be run."""
    group = here.devices_for(asked.accelerator, count=1)
    source, name = model_source(asked.model)
    inline = isinstance(source, dict)
    description = describe_model(
        source,
        sequence_length=asked.sequence_length,
        precision=asked.precision or (DEFAULT_PRECISION if inline else None),
        attention=asked.attention or (DEFAULT_ATTENTION if inline else None),
    )
    if name is not None:
        description = description.model_copy(update={"name": name})
    opened = open_model(
        source,
        sequence_length=description.sequence_length,
        precision=description.precision,
        attention=description.attention,
    )
    plan = Plan(
        tuple(sorted(set(asked.micro_batch_sizes))),
        device=torch_device(group),
        accelerator=group.accelerator,
        budget_s=here.budget_s,
        optimizer=asked.optimizer,
    )

    def progress(done: int, total: int, what: str) -> None:
        tell({"doing": what, "done": done, "of": total})

    profile = take_profile(opened, plan, name=description.name, description=description, progress=progress)
    return Answer(ProfileModelResult(profile=profile))


def model_source(model: str | InlineModel) -> tuple[str | dict[str, Any], str | None]:
    """The model as `open_model` takes it, and what it is to be called; raises RequestError for a profile."""
    if isinstance(model, str):
        return model, None
    if model.config is None:
        raise RequestError(
            "a profile has no weights to run: name the preset, or give the config.json it is of"
        )
    return {"config": model.config}, model.name
