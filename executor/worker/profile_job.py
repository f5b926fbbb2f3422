"""How is a model profiled for the service?"""

from __future__ import annotations

from executor.errors import ConfigurationError
from executor.measuring.neighbours import Crowd, take_crowded_profile
from executor.measuring.overheard import Overheard
from executor.measuring.profiling import Plan, take_profile
from executor.models.sources import describe_model, open_model
from executor.worker.answer import Answer, Tell
from executor.worker.model_source import model_source
from executor.worker.surroundings import Surroundings, torch_device
from tuner.assignments import DEFAULT_ATTENTION, DEFAULT_PRECISION, ProfileModel, ProfileModelResult


def profile_model(asked: ProfileModel, here: Surroundings, tell: Tell) -> Answer:
    """Measure every layer; raises ConfigurationError, ModelError or TunerError for what cannot be run."""
    group = here.devices_for(asked.accelerator, count=asked.processes)
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
    plan = Plan(
        tuple(sorted(set(asked.micro_batch_sizes))),
        device=torch_device(group),
        accelerator=group.accelerator,
        budget_s=here.budget_s,
        optimizer=asked.optimizer,
    )

    def progress(done: int, total: int, what: str) -> None:
        tell({"doing": what, "done": done, "of": total})

    shape = {name: getattr(description, name) for name in ("sequence_length", "precision", "attention")}
    if asked.processes > 1:
        if plan.device != "cpu":
            raise ConfigurationError(
                f"{asked.processes} processes cannot share a {group.accelerator}: ask for 1"
            )
        with Overheard(progress) as overheard:
            crowd = Crowd(source, asked.processes, **shape, timeout_s=here.limit_s, told=overheard.path)
            profile = take_crowded_profile(crowd, plan)
        return Answer(ProfileModelResult(profile=profile.model_copy(update={"description": description})))
    opened = open_model(source, **shape)
    profile = take_profile(opened, plan, name=description.name, description=description, progress=progress)
    return Answer(ProfileModelResult(profile=profile))
