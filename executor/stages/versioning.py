"""How do the weights of a stage step while micro-batches that read older ones are still alive?"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from executor.stages.pipemare import PipeMareRule, PipeMareWeights
from executor.stages.versions import StashedWeights
from executor.weights.holdings import HeldStage, RankWeights
from tuner.configuration import Configuration
from tuner.schedules.generators import find_recipe
from tuner.schedules.program import Op

VersionedWeights = StashedWeights | PipeMareWeights


def weights_of(
    configuration: Configuration,
    modules: Sequence[nn.Module],
    *,
    stage: int,
    annealing_steps: int = 0,
    warm_up_steps: int = 0,
) -> VersionedWeights | None:
    """The weights of a stage under an asynchronous schedule; None where one copy, as it is, serves."""
    recipe = find_recipe(configuration.schedule)
    if recipe.synchronous or not any(p.requires_grad for module in modules for p in module.parameters()):
        return None
    versions = recipe.weight_versions(configuration.depth)
    if int(versions.max()) == 1 and recipe.updates == "iteration":
        rule = PipeMareRule(
            stage,
            configuration.stages,
            configuration.micro_batches,
            annealing_steps=annealing_steps,
            warm_up_steps=warm_up_steps,
        )
        return PipeMareWeights(modules, rule)
    return StashedWeights(modules, readable=1 if recipe.updates == "micro_batch" else int(versions.max()))


class VersionedStage:
    """Makes the next version of a stage's weights, with the gradients that are in the rank's buffers."""

    def __init__(self, weights: VersionedWeights, rank: RankWeights, held: HeldStage) -> None:
        self.weights = weights
        self._state = rank.groups.get(held.stage)
        trained = {id(p): name for name, p in reversed(list(held.parameters())) if p.requires_grad}
        self._names = [
            trained[key] for key in dict.fromkeys(id(p) for _, p in held.parameters()) if key in trained
        ]
        """Parameters that are trained, in their order."""

    @property
    def corrections(self) -> dict[str, Any]:
        """What a checkpoint must hold of PipeMare: the step, and δ by parameter name; nothing of others."""
        if not isinstance(self.weights, PipeMareWeights):
            return {}
        state = self.weights.state
        return {"step": state["step"], "deltas": dict(zip(self._names, state["deltas"], strict=False))}

    def load_corrections(self, state: Mapping[str, Any]) -> None:
        """Go on with what `corrections` gave, of any layout; nothing is done where it is not PipeMare's."""
        if isinstance(self.weights, PipeMareWeights) and state:
            deltas = [state["deltas"][name] for name in self._names if name in state["deltas"]]
            self.weights.load_state({"step": state["step"], "deltas": deltas})

    def restart(self) -> None:
        """A new program begins, whose versions count from 0."""
        if isinstance(self.weights, StashedWeights):
            self.weights.restart()

    def update(self, op: Op) -> None:
        """Step the weights; those that live micro-batches have read stay as they are."""
        state = self._state
        if state is None or state.steps is None:
            return
        with self.weights.updating(state.steps.optimizer, op.version) as replaced:
            if replaced:
                state.move_to({name: replaced.get(leaf, leaf) for name, leaf in state.leaves.items()})
            state.step()
