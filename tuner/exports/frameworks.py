"""What can each training framework run, and which candidate is it given where that is not the choice?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tuner.configuration import Configuration
from tuner.exports.errors import NotExpressibleError
from tuner.plan import Candidate, Chosen, Plan
from tuner.space import TARGET_FILLED


@dataclass(frozen=True)
class Framework:
    """A framework and what it has words for."""

    title: str
    release: str
    """The release whose options are written, and when it came out."""
    schedules: tuple[str, ...]
    recomputes: tuple[str, ...] = ("none", "stage", "layer")
    filled: tuple[str, ...] = ()
    """Schedules that it refuses where N < D."""

    def runs(self, candidate: Candidate | Configuration) -> bool:
        """Whether it can run the candidate; without a pipeline (D=1) there is no schedule to have.

        None of them compresses the gradients of a pipeline.
        """
        if isinstance(candidate, Candidate) and candidate.compression != "none":
            return False
        alone = candidate.depth == 1 and candidate.pipe_pairs == 1
        if candidate.micro_batches < candidate.depth and candidate.schedule in self.filled:
            return False
        return (alone or candidate.schedule in self.schedules) and candidate.recompute in self.recomputes


FRAMEWORKS: Final[Mapping[str, Framework]] = {
    "megatron": Framework("Megatron-LM", "Megatron Core 0.19, September 2026", ("dapple", "interleaved")),
    "torchtitan": Framework(
        "torchtitan",
        "torchtitan 0.3, September 2026",
        # zb_h1 as a CSV of torch.distributed.pipelining, the others by name.
        ("gpipe", "dapple", "interleaved", "zb_v", "zb_h1"),
        ("none", "layer"),
        TARGET_FILLED["torchtitan"],
    ),
    "deepspeed": Framework("DeepSpeed", "DeepSpeed 0.19, October 2026", ("dapple",)),
}


def runnable(plan: Plan, chosen: Chosen, name: str) -> Candidate:
    """The choice, or else the best of the plan that the framework runs; raises NotExpressibleError."""
    framework = FRAMEWORKS[name]
    if framework.runs(chosen):
        return chosen
    stored = plan.best_by_framework.get(name)
    found = stored or next(filter(framework.runs, plan.candidates), None)
    if found is None:
        raise NotExpressibleError(
            f"{framework.title} cannot run the chosen {chosen.schedule} with recompute={chosen.recompute}, "
            f"D={chosen.depth} and N={chosen.micro_batches}, nor anything else that fits: plan with "
            f"runs_on={name} (--runs-on {name}), which considers only what it runs: "
            f"{', '.join(framework.schedules)}"
        )
    return found


def substitution(plan: Plan, name: str) -> str | None:
    """What is written for a framework instead of the choice, and what that costs; None for the choice itself.

    Raises NotExpressibleError where nothing can be written.
    """
    if plan.chosen is None or name not in FRAMEWORKS:
        return None
    candidate = runnable(plan, plan.chosen, name)
    if candidate is plan.chosen:
        return None
    chosen, title = plan.chosen, FRAMEWORKS[name].title
    best, here = (each.predicted.throughput_samples_per_s for each in (chosen, candidate))
    return (
        f"The plan's choice, {_named(chosen)}, cannot run on {title}. This is the best candidate that can: "
        f"{_named(candidate)}, {here:,.1f} samples/s instead of {best:,.1f} ({max(0.0, 1 - here / best):.1%} "
        f"less). --runs-on {name} considers only what {title} runs."
    )


def preface(plan: Plan, candidate: Candidate, name: str) -> list[str]:
    """What every export for a framework says first: of what plan, for which release, and what it is not."""
    world = candidate.width * candidate.depth
    idle = plan.cluster.devices - world
    said = [
        f"{plan.model.name} on {world:,} x {plan.cluster.accelerator}, for {FRAMEWORKS[name].release}.",
        substitution(plan, name),
        f"{idle:,} of the {plan.cluster.devices:,} devices stay idle." if idle else None,
    ]
    # A name may hold line breaks, and a comment must not end early.
    return [" ".join(sentence.split()) for sentence in said if sentence]


def _named(candidate: Candidate) -> str:
    again = f", recompute={candidate.recompute}" if candidate.recompute != "none" else ""
    return f"{candidate.schedule} with W={candidate.width} and D={candidate.depth}{again}"
