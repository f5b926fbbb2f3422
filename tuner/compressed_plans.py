"""What would compressed gradients change? A request is planned without, and with each that it allows."""

from collections.abc import Callable

from tuner.choice import Choice
from tuner.compression import NONE, SCATTERED, Compression, read_compressions
from tuner.evaluation import Evaluator
from tuner.exports.frameworks import FRAMEWORKS
from tuner.plan import Candidate, CompressionNote, CompressionOption, Plan
from tuner.ranks import to_ranks
from tuner.request import PlanRequest
from tuner.schedules import find_scheme


def with_compression(request: PlanRequest, plan_of: Callable[[PlanRequest], Plan]) -> Plan:
    """The fastest plan of those without and with every allowed compression, which says what the others give.

    plan_of: the plan of a request that names one compression. On a tie the one that is named first, and none
    before all.
    """
    allowed = read_compressions(request.compression)
    if not allowed:
        return plan_of(request)
    plain = plan_of(request.model_copy(update={"compression": "none"}))
    plans: list[tuple[Compression, Plan | None, str | None]] = [(NONE, plain, None)]
    for how in allowed:
        reason = _unusable(how, request)
        asked = request.model_copy(update={"compression": str(how)})
        plans.append((how, None if reason else plan_of(asked), reason))
    best = min((plan for _, plan, _ in plans if plan is not None), key=_iteration_s)
    options = tuple(_option(how, plan, reason) for how, plan, reason in plans)
    note = _note(plain, best, options)
    changes = {"request": {**best.request, "compression": request.compression}, "compression": note}
    if best is not plain:
        changes["best_by_framework"] = _uncompressed(plain)
    return best.model_copy(update=changes)


def settled(request: PlanRequest, plan: Plan) -> PlanRequest:
    """The request with the one compression that `plan`, its answer, chose: what its trials run with."""
    name = plan.chosen.compression if plan.chosen else "none"
    return request.model_copy(update={"compression": name})


def as_asked(before: Plan, corrected: Plan) -> Plan:
    """What trials corrected, as an answer to the request of `before`: with what that said of compressions."""
    kept: dict[str, object] = {"compression": before.compression}
    kept["request"] = {**corrected.request, "compression": before.request["compression"]}
    if corrected.chosen is not None and corrected.chosen.compression != "none":
        kept["best_by_framework"] = before.best_by_framework
    return corrected.model_copy(update=kept)


def sent_bytes(evaluator: Evaluator, choice: Choice) -> int:
    """What the rank that sends most gives to collectives of gradients in an iteration."""
    variant, index = choice.evaluated.variant, choice.index
    placement = variant.scheme.placement(variant.layout.depth, variant.pipe_pairs)
    if len(placement) * variant.layout.width == 1:
        return 0
    volume = evaluator.synchronization.volume_bytes(choice.evaluated.stages)[[index]]
    return int(to_ranks(volume[:, None, :], placement, "sum").max())


def _unusable(how: Compression, request: PlanRequest) -> str | None:
    """Why a compression cannot be had with the rest of the request."""
    if request.optimizer_sharding == "replicas" and how.name not in SCATTERED:
        return (
            f"optimizer_sharding=replicas sums pieces of gradients, and the codes of {how.name} do not add: "
            "fp16 and bf16 do"
        )
    if request.runs_on in FRAMEWORKS:
        return f"{FRAMEWORKS[request.runs_on].title} does not have it in a pipeline: use runs_on=own"
    asynchronous = [name for name in request.schedules or () if not find_scheme(name).synchronous]
    if asynchronous:
        return f"{asynchronous[0]} updates its stages at different times, where it is not defined"
    return None


def _iteration_s(plan: Plan) -> float:
    return plan.chosen.predicted.iteration_s if plan.chosen else float("inf")


def _option(how: Compression, plan: Plan | None, reason: str | None) -> CompressionOption:
    chosen = plan.chosen if plan else None
    if plan is not None and chosen is None:
        reason = "nothing fits"
    return CompressionOption(
        compression=str(how),
        collective=how.collective,
        volume_bytes=plan.sent_gradient_bytes if plan and chosen else None,
        schedule=chosen.schedule if chosen else None,
        width=chosen.width if chosen else None,
        depth=chosen.depth if chosen else None,
        iteration_s=chosen.predicted.iteration_s if chosen else None,
        throughput_samples_per_s=chosen.predicted.throughput_samples_per_s if chosen else None,
        all_reduce_s=chosen.predicted.breakdown.all_reduce_s if chosen else None,
        risk=how.risk,
        reason=reason,
    )


def _note(plain: Plan, best: Plan, options: tuple[CompressionOption, ...]) -> CompressionNote:
    chosen, before = best.chosen, plain.chosen
    name = chosen.compression if chosen else "none"
    risk = next((option.risk for option in options if option.compression == name), "")
    speed_up = before.predicted.iteration_s / chosen.predicted.iteration_s if chosen and before else None
    changes = bool(chosen and before and _layout(chosen) != _layout(before))
    return CompressionNote(
        chosen=name,
        changes_layout=changes,
        speed_up=speed_up,
        options=options,
        summary=_summary(plain, best, risk=risk, speed_up=speed_up),
    )


def _summary(plain: Plan, best: Plan, *, risk: str, speed_up: float | None) -> str:
    """One sentence on what the compression changes and what it risks."""
    chosen, before = best.chosen, plain.chosen
    if chosen is None:
        return "nothing fits, with or without compression"
    name = chosen.compression
    if name == "none":
        return "no compression that is allowed is faster than none"
    if before is None or speed_up is None:
        return f"{name} is what fits. Its risk: {risk}"
    same = _layout(chosen) == _layout(before)
    moved = (
        f"the best stays W={chosen.width} x D={chosen.depth}"
        if same
        else f"the best moves from {_named(before)} to {_named(chosen)}"
    )
    return f"with {name} {moved}, {speed_up:.2f} times as fast as without. Its risk: {risk}"


def _layout(candidate: Candidate) -> tuple[str, int, int]:
    return candidate.schedule, candidate.width, candidate.depth


def _named(candidate: Candidate) -> str:
    return f"{candidate.schedule} W={candidate.width} x D={candidate.depth}"


def _uncompressed(plain: Plan) -> dict[str, Candidate]:
    """What frameworks, which do not compress in a pipeline, run instead."""
    if plain.chosen is None:
        return plain.best_by_framework
    instead = Candidate.model_validate(plain.chosen.model_dump(include=set(Candidate.model_fields)))
    found = {name: instead for name, framework in FRAMEWORKS.items() if framework.runs(plain.chosen)}
    return {**found, **plain.best_by_framework}
