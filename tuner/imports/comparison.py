"""What should be run instead of what is run now, and what would that gain?"""

from typing import Any, Literal

from profiles.calibration import Calibration
from profiles.cluster import ClusterProfile
from profiles.model import ModelDescription
from profiles.timings import Profile
from tuner.errors import RequestError
from tuner.estimate import describe
from tuner.exports.megatron import megatron_flags
from tuner.imports.errors import ImportedError
from tuner.imports.megatron_flags import Flags
from tuner.imports.megatron_model import model_config
from tuner.imports.megatron_run import MegatronRun, read_run
from tuner.imports.tensor_parallel import groups_of, profile_of_rank
from tuner.inputs import Library
from tuner.plan import Candidate, Plan, PlanPart
from tuner.planning import answer
from tuner.request import PlanRequest, read_request

_SIZES = {
    "--hidden-size": "hidden_size",
    "--num-attention-heads": "heads",
    "--ffn-hidden-size": "intermediate_size",
}
"""Flags that say what a block's shape has."""


class Comparison(PlanPart):
    """A run of Megatron-LM beside the best that the same devices can do, within its tensor parallelism."""

    schema_version: Literal[1] = 1
    tensor_parallel: int
    """T, which is kept: a rank of the configurations below is a group of T devices."""
    devices: int
    """All of them, W·D·T."""
    estimated: bool
    """Whether layers divided by T were estimated from whole ones."""
    now: Candidate | None
    """What is run now, as predicted; None where it would not fit."""
    now_reason: str | None
    """Why it would not fit."""
    plan: Plan
    """The plan of what Megatron-LM runs; its `chosen` is the best."""
    predicted_gain: float | None
    """Throughput of the best over that of now, minus 1."""
    flags: str | None
    """The best as flags of Megatron-LM."""
    anywhere: Candidate | None
    """The best over all schedules and targets."""
    predicted_gain_anywhere: float | None
    notes: tuple[str, ...]
    """What was assumed, a sentence each."""


def compare(
    flags: Flags, asked: dict[str, Any], library: Library, *, calibration: Calibration | None = None
) -> Comparison:
    """Compare a run with the plans for the same question.

    `asked` may hold `model` (a preset's name or {"config": ...}), `cluster`, `accelerator`, `devices`,
    `margin` and `search`. Raises TunerError or DocumentError.
    """
    run = read_run(flags)
    devices = asked.get("devices") or run.devices
    if devices is None:
        raise ImportedError("how many devices there are is not in the flags: give --devices")
    _check_width(run, devices)
    question, profile = _question(flags, run, asked, devices=devices, library=library)
    now = _answer_now(run, question, library, profile=profile, calibration=calibration)
    _check_layers(flags, now)
    run.stages.check(now.model.blocks, run.depth)
    best, anywhere = (
        answer(_request(question, runs_on=target), library, profile=profile, calibration=calibration)
        for target in ("megatron", "any")
    )
    return Comparison(
        tensor_parallel=run.tensor_parallel,
        devices=devices,
        estimated=run.tensor_parallel > 1,
        now=now.candidates[0] if now.candidates else None,
        now_reason=None if now.chosen else _reason(now),
        plan=best,
        predicted_gain=_gain(now, best),
        flags=_flags(best, run),
        anywhere=anywhere.candidates[0] if anywhere.candidates else None,
        predicted_gain_anywhere=_gain(now, anywhere),
        notes=tuple(_notes(run, now)),
    )


def _check_width(run: MegatronRun, devices: int) -> None:
    group = run.tensor_parallel * run.depth
    if devices % group:
        raise RequestError(
            f"{devices:,} devices do not divide by T x D = {run.tensor_parallel} x {run.depth} = {group:,}, "
            "which Megatron-LM refuses too: give the number of devices that it runs on"
        )


def _check_layers(flags: Flags, now: Plan) -> None:
    if flags.has("--num-layers") and flags.count("--num-layers") != now.model.blocks:
        raise ImportedError(
            f"--num-layers is {flags.text('--num-layers')}, and {now.model.name} has {now.model.blocks} "
            "blocks: leave --model out, or give the one that is run"
        )


def _check_sizes(flags: Flags, description: ModelDescription) -> None:
    """Raise ImportedError where flags and the model that was named tell of two models."""
    shape = next(layer.shape for layer in description.layers if layer.kind == "block")
    for flag, key in _SIZES.items():
        if flags.has(flag) and key in shape and flags.count(flag) != shape[key]:
            raise ImportedError(
                f"{flag} is {flags.text(flag)}, and that of {description.name} is {shape[key]}: leave "
                "--model out, or give the one that is run"
            )


def _question(
    flags: Flags, run: MegatronRun, asked: dict[str, Any], *, devices: int, library: Library
) -> tuple[dict[str, Any], Profile | None]:
    """The request without its targets, and for T > 1 the profile of a rank that it refers to."""
    question = {
        **{name: asked[name] for name in ("cluster", "accelerator", "margin") if asked.get(name) is not None},
        "model": asked.get("model") or {"config": model_config(flags), "name": "megatron"},
        "devices": devices // run.tensor_parallel,
        "mini_batch_size": run.mini_batch_size,
        "sequence_length": run.sequence_length,
        "precision": run.precision,
        "gradient_precision": run.gradient_precision,
        "optimizer": run.optimizer,
        "optimizer_sharding": run.optimizer_sharding,
        "attention": run.attention,
        "search": asked.get("search") or "exhaustive",
        "top": 1,
    }
    whole = _request(question)
    if isinstance(whole.model, str) or run.sequence_length is not None:
        _check_sizes(flags, _description(whole, library))
    if run.tensor_parallel == 1:
        return question, None
    cluster = _cluster(whole, library)
    accelerator = library.load_accelerator(whole.accelerator or cluster.node.accelerator)
    profile = profile_of_rank(
        _description(whole, library),
        accelerator,
        cluster,
        tensor_parallel=run.tensor_parallel,
        sequence_parallel=run.sequence_parallel,
    )
    grouped = {"document": groups_of(cluster, run.tensor_parallel)}
    return question | {"model": {"profile": profile.fingerprint()}, "cluster": grouped}, profile


def _request(question: dict[str, Any], **more: Any) -> PlanRequest:
    return read_request(question | more)


def _cluster(request: PlanRequest, library: Library) -> ClusterProfile:
    if request.cluster is None or isinstance(request.cluster, str):
        return library.load_cluster(request.cluster or "generic")
    return request.cluster.document


def _description(request: PlanRequest, library: Library) -> ModelDescription:
    model = request.model
    if isinstance(model, str):
        preset = library.load_model_preset(model)
        config, name, length = preset.config, preset.name, request.sequence_length or preset.sequence_length
    else:
        config, name, length = model.config or {}, model.name or "config", request.sequence_length or 0
    return describe(
        config,
        sequence_length=length,
        precision=request.precision or "bfloat16",
        attention=request.attention or "flash",
        name=name,
    )


def _answer_now(
    run: MegatronRun,
    question: dict[str, Any],
    library: Library,
    *,
    profile: Profile | None,
    calibration: Calibration | None,
) -> Plan:
    pinned = _request(
        question,
        width=question["devices"] // run.depth,
        depth=run.depth,
        micro_batch_size=run.micro_batch_size,
        schedules=(run.schedule,),
        recompute=run.recompute,
        # What Megatron-LM does without a layout.
        partition="even" if run.stage_layers is None or len(set(run.stage_layers)) == 1 else "balanced",
    )
    return answer(pinned, library, profile=profile, calibration=calibration)


def _reason(now: Plan) -> str:
    return now.rejected[0].reason if now.rejected else "no configuration is legal"


def _gain(now: Plan, best: Plan) -> float | None:
    if now.chosen is None or best.chosen is None:
        return None
    here, there = (plan.chosen.predicted.throughput_samples_per_s for plan in (now, best) if plan.chosen)
    return there / here - 1


def _flags(best: Plan, run: MegatronRun) -> str | None:
    if best.chosen is None:
        return None
    more = ["--sequence-parallel"] if run.sequence_parallel else []
    lines = [*megatron_flags(best, best.chosen, tensor_parallel=run.tensor_parallel), *more]
    return "\n".join(lines) + "\n"


def _notes(run: MegatronRun, now: Plan) -> list[str]:
    notes = list(run.notes)
    if run.tensor_parallel > 1:
        notes.append(
            f"T={run.tensor_parallel} is kept: weights, work and activations of a layer are divided by it, "
            "and its all-reduces added, by arithmetic; all times are estimates"
        )
    if run.chunks not in {1, 2}:
        notes.append(f"{run.chunks} stages a rank are predicted as 2, the number that is modelled")
    candidate = now.chosen
    if run.stage_layers and candidate and candidate.chunks == run.chunks:
        cut = candidate.stage_layers
        if cut != run.stage_layers:
            has = _told(run.stage_layers)
            notes.append(f"what is run now is predicted with stages of {_told(cut)} blocks, not {has}")
    return notes


def _told(layers: tuple[int, ...]) -> str:
    return ",".join(map(str, layers))
