"""How is a comparison with what is run now told to people?"""

from collections.abc import Iterator

from cli.answer import configuration
from cli.quantities import percent
from tuner.imports.comparison import Comparison
from tuner.plan import Candidate

_SAME = 0.001


def describe_comparison(found: Comparison) -> Iterator[str]:
    """Lines for a terminal: now, the best, the gain, and what was assumed."""
    kept = f", T={found.tensor_parallel} devices a rank" if found.tensor_parallel > 1 else ""
    cluster = found.plan.cluster
    yield f"{found.plan.model.name} on {found.devices:,} x {cluster.accelerator} ({cluster.name}){kept}"
    yield ""
    if found.now is None:
        yield f"  now       cannot run by the model: {found.now_reason}"
    else:
        yield f"  now       {_told(found.now)}"
    best = found.plan.chosen
    if best is None:
        yield "  best      nothing that Megatron-LM runs fits"
    else:
        yield f"  best      {_told(best)}"
    if found.anywhere is not None and found.anywhere.schedule not in {"dapple", "interleaved"}:
        yield f"  anywhere  {_told(found.anywhere)}"
    yield ""
    yield _gain(found)
    for note in found.notes:
        yield f"Note: {note}."
    if found.flags and best is not None and found.now != best:
        yield ""
        yield "Flags of the best in Megatron-LM:"
        yield from (f"  {line}" for line in found.flags.splitlines())


def _told(candidate: Candidate) -> str:
    return f"{configuration(candidate)}: {candidate.predicted.throughput_samples_per_s:,.1f} samples/s"


def _gain(found: Comparison) -> str:
    if found.predicted_gain is None:
        return "There is no gain to tell where one of them cannot run."
    if found.predicted_gain < _SAME:
        told = "What is run now is the best that Megatron-LM can do"
    else:
        told = f"Predicted gain within Megatron-LM: {percent(found.predicted_gain)} more samples/s"
    more = found.predicted_gain_anywhere
    if more is not None and more - found.predicted_gain > _SAME:
        told += f"; over all schedules {percent(more)}"
    return f"{told}."
