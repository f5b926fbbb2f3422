"""What does the page compare another answer with? The choice of the plan in a few figures."""

from typing import Any

from api.reports.quantities import SCHEDULE_NAMES
from tuner.plan import Plan
from tuner.tuning import Tuning


def stored_answer(plan: Plan) -> dict[str, Any]:
    """What `what_if.js` shows as this study's, in the words of a plan.

    Trials have corrected the figures of a study that made some: the page then asks the model again, so that
    both columns are its predictions.
    """
    told: dict[str, Any] = {
        "names": SCHEDULE_NAMES,
        "trials": isinstance(plan, Tuning) and bool(plan.trials),
    }
    if plan.chosen is None:
        return told | {"none": plan.smallest_change.change if plan.smallest_change else ""}
    chosen = plan.chosen.model_dump(
        mode="json",
        include={"schedule", "width", "depth", "micro_batch_size", "micro_batches", "recompute"},
    )
    predicted = plan.chosen.predicted.model_dump(
        mode="json", include={"throughput_samples_per_s", "tokens_per_s", "iteration_s", "mfu"}
    )
    free = plan.cluster.memory_bytes - plan.chosen.peak_memory_bytes
    return told | chosen | predicted | {"free_bytes": free, "idle_devices": plan.idle_devices}
