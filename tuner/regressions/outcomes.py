"""Does the model still fit, and run as fast as before? The plans, compared."""

from collections.abc import Iterator

from tuner.plan import Plan
from tuner.regressions.answer import Change, regressed
from tuner.regressions.manifest import Thresholds
from tuner.regressions.records import Layout, Outcome


def outcome_of(plan: Plan) -> Outcome:
    """What a baseline keeps of a plan."""
    chosen = plan.chosen
    if chosen is None:
        return Outcome(chosen=None, capacity_bytes=plan.cluster.memory_bytes)
    layout = {field: getattr(chosen, field) for field in Layout.model_fields}
    return Outcome(
        chosen=Layout(**layout),
        throughput_samples_per_s=chosen.predicted.throughput_samples_per_s,
        iteration_s=chosen.predicted.iteration_s,
        peak_memory_bytes=chosen.peak_memory_bytes,
        capacity_bytes=plan.cluster.memory_bytes,
    )


def changed_outcome(
    before: Outcome, after: Outcome, thresholds: Thresholds, *, noise: float
) -> Iterator[Change]:
    """How the plan changed; `noise` is the uncertainty of the layer times that both were computed from."""
    if before.chosen is None or after.chosen is None:
        yield from _fitting(before, after)
        return
    yield from _throughput(before, after, allowed=max(thresholds.throughput, thresholds.spreads * noise))
    yield from _memory(before, after, allowed=thresholds.memory)
    if before.chosen != after.chosen:
        yield Change(
            kind="other_configuration",
            what="best configuration",
            before=str(before.chosen),
            after=str(after.chosen),
            regression=False,
            message=f"another configuration is best: {before.chosen} became {after.chosen}",
        )


def _fitting(before: Outcome, after: Outcome) -> Iterator[Change]:
    if before.chosen is not None:
        yield Change(
            kind="no_longer_fits",
            what="memory",
            before=str(before.chosen),
            regression=True,
            message=f"the model no longer fits: {before.chosen} took {before.peak_memory_bytes or 0:,} bytes "
            f"of {before.capacity_bytes:,}, and now no configuration fits {after.capacity_bytes:,}",
        )
    elif after.chosen is not None:
        yield Change(
            kind="other_configuration",
            what="memory",
            after=str(after.chosen),
            regression=False,
            message=f"the model fits now, with {after.chosen}",
        )


def _throughput(before: Outcome, after: Outcome, *, allowed: float) -> Iterator[Change]:
    was, now = before.throughput_samples_per_s, after.throughput_samples_per_s
    if was and now and 1 - now / was > allowed:
        yield regressed(
            "lower_throughput",
            "predicted throughput",
            before=was,
            after=now,
            allowed=allowed,
            message=f"the predicted throughput is {1 - now / was:.0%} lower: {was:,.2f} samples/s became "
            f"{now:,.2f}",
        )


def _memory(before: Outcome, after: Outcome, *, allowed: float) -> Iterator[Change]:
    """More in the same configuration; another one is chosen for its speed and may take what there is."""
    was, now = before.peak_memory_bytes, after.peak_memory_bytes
    if was and now and before.chosen == after.chosen and now / was - 1 > allowed:
        yield regressed(
            "more_memory",
            "fullest device",
            before=was,
            after=now,
            allowed=allowed,
            message=f"the fullest device takes {now / was - 1:.0%} more memory: {was:,} bytes became {now:,}",
        )
