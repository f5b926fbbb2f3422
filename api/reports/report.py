"""What does the report of a plan say? The answer first, then why, then everything else."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from api.reports import inline, reasons
from api.reports.files import held_files
from api.reports.lanes import HeldLane, Lane, called, candidate_lanes, trial_lanes
from api.reports.memory import fullest, memory_chart
from api.reports.quantities import NO_BREAK
from api.reports.throughput import throughput_chart
from api.reports.timeline import within_room
from api.reports.tried import tried, why_measured
from api.reports.what_if import stored_answer
from api.web.rendering import render
from tuner.exports import export
from tuner.exports.errors import ExportError
from tuner.plan import Plan
from tuner.schedules import SCHEMES
from tuner.tuning import Tuning

_ONLINE = (*inline.SCRIPTS[:-2], "what_if.js", *inline.SCRIPTS[-2:])
_FILES = {
    "megatron": "megatron.txt",
    "torchtitan": "torchtitan.txt",
    "deepspeed": "deepspeed.json",
    "torchrun": "torchrun.sh",
    "slurm": "slurm.sh",
    "ray": "ray.py",
    "env": "environment.sh",
    "json": "launch.json",
}
EXPORT_NAMES = {
    "megatron": "Megatron-LM",
    "torchtitan": "torchtitan",
    "deepspeed": "DeepSpeed",
    "torchrun": "torchrun",
    "slurm": "Slurm",
    "ray": "Ray",
    "env": "Environment",
    "json": "JSON",
}


@dataclass(frozen=True)
class StudyNote:
    """The study that a report belongs to."""

    id: str
    name: str | None
    created_at: str
    """When it was asked, for people, in UTC."""
    traces: tuple[int, ...] = ()
    """The trials whose recorded timelines are there."""
    request: dict[str, Any] | None = None
    """What is asked again, changed; None where it cannot be."""


@dataclass(frozen=True)
class LaunchSettings:
    """The choice in another program's words."""

    format: str
    label: str
    text: str
    usable: bool
    """False where `text` says why there is none."""

    @property
    def file(self) -> str:
        """What it is saved as."""
        return _FILES[self.format]


def render_report(
    plan: Plan,
    *,
    standalone: bool,
    study: StudyNote | None = None,
    base: str = "",
    timeline: dict[str, Any] | str | None = None,
    measured_timeline: bool = False,
    beside: Sequence[HeldLane] = (),
) -> str:
    """The report as HTML. Standalone it is one file that needs no network; else `base` serves its assets.

    A standalone report holds `timeline`, simulated or measured, or the reason why there is none, and what can
    be set `beside` it; online they are fetched. A plan that is a Tuning brings its trials.
    The bytes depend on the arguments alone: no clock, no host.
    """
    beside = within_room(timeline, beside)
    context: dict[str, Any] = {
        "plan": plan,
        "study": study,
        "why": why_measured(plan) if isinstance(plan, Tuning) else reasons.why_chosen(plan),
        "rejected_sentence": reasons.rejected_sentence(plan),
        "rejected_groups": reasons.rejected_groups(plan),
        "launch": launch_settings(plan),
        "charts": _charts(plan),
        "facts": _facts(plan),
        "timeline": timeline,
        "measured_timeline": measured_timeline,
        "lanes": _lanes(plan, study, beside=beside),
        "beside": beside,
        "tried": tried(plan) if isinstance(plan, Tuning) else None,
        "scripts": inline.SCRIPTS if standalone else _ONLINE,
        "schedules": list(SCHEMES),
        "stored": stored_answer(plan),
        "files": held_files(plan) if standalone else [],
        "policy": inline.policy() if standalone else None,
        "kept_free": _kept_free(plan),
        "failure": reasons.failure(plan),
    }
    if plan.chosen is not None:
        context["choice"] = called(plan.chosen)
        context["shares"] = reasons.shares(plan.chosen.predicted.breakdown)
        context["fullest"] = fullest(plan.chosen.memory, plan.cluster.memory_bytes)
    elif plan.smallest_change is not None:
        context["fullest"] = fullest([plan.smallest_change.memory], plan.cluster.memory_bytes)
    return render("report.html", base=base, standalone=standalone, **context)


def _lanes(plan: Plan, study: StudyNote | None, *, beside: Sequence[HeldLane]) -> list[Lane]:
    """What can be set beside the choice."""
    if study is None:
        return [lane for lane, _ in beside]
    return candidate_lanes(plan) + trial_lanes(plan, study.traces)


def launch_settings(plan: Plan) -> list[LaunchSettings]:
    """The choice for each program there is a name for, with the reason where a program cannot run it."""
    if plan.chosen is None:
        return []
    found = []
    for name, label in EXPORT_NAMES.items():
        try:
            found.append(LaunchSettings(name, label, export(plan, name)[0].rstrip("\n"), usable=True))
        except ExportError as error:
            found.append(LaunchSettings(name, label, str(error), usable=False))
    return found


def _charts(plan: Plan) -> dict[str, Any]:
    charts: dict[str, Any] = {"throughput": throughput_chart(plan)}
    if plan.chosen is not None:
        charts["memory"] = memory_chart(plan.chosen.memory, plan.cluster.memory_bytes)
    return charts


def _kept_free(plan: Plan) -> str:
    margin = plan.request.get("margin")
    return f"beyond the {100 * margin:g}{NO_BREAK}% kept free, " if margin else ""


def _facts(plan: Plan) -> list[tuple[str, str]]:
    """The settings that decide, in the order in which people think of them."""
    request = plan.request
    facts = [
        ("Mini-batch", f"{request['mini_batch_size']:,} samples"),
        ("Sequence", f"{plan.model.sequence_length:,} tokens"),
        ("Precision", plan.model.precision),
        ("Attention", plan.model.attention),
        ("Optimizer", str(request["optimizer"])),
        ("Search", str(request["search"])),
    ]
    if request["optimizer_sharding"] == "replicas":
        facts.append(("Optimizer state", "divided over replicas"))
    if request["runs_on"] != "any":
        facts.append(("Runs on", str(request["runs_on"])))
    return facts
