"""Why not another configuration? The best one under some constraints, against the chosen one."""

from dataclasses import dataclass
from typing import Any, get_args

from tuner.answer import Narrator
from tuner.choice import Choice, Found
from tuner.configuration import Recompute, Scaling
from tuner.errors import RequestError
from tuner.plan import Breakdown, Candidate, WhyNot
from tuner.ranking import Ranking
from tuner.rejection import MemoryRefusal, Refusal
from tuner.schedule_names import SCHEDULES

_NUMBERS = ("width", "depth", "micro_batch_size", "micro_batches", "pipe_pairs")
_WORDS: dict[str, tuple[str, ...]] = {
    "schedule": SCHEDULES,
    "recompute": get_args(Recompute),
    "scaling": get_args(Scaling),
}
_SHORT = {"W": "width", "D": "depth", "B": "micro_batch_size", "N": "micro_batches", "f": "pipe_pairs"}


def read_constraints(text: str) -> dict[str, Any]:
    """Read "depth=16,schedule=dapple" (or "D=16"); raises RequestError naming what can be asked."""
    constraints: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (piece.strip() for piece in part.partition("="))
        name = _SHORT.get(name, name)
        if name in _NUMBERS and value.isascii() and value.isdigit() and 0 < int(value[:19]) < 10**18:
            constraints[name] = int(value)
        elif name in _WORDS and value in _WORDS[name]:
            constraints[name] = value
        else:
            choices = ", ".join(f"{word} ({'|'.join(values)})" for word, values in _WORDS.items())
            raise RequestError(
                f"why={part[:60]!r} is not understood: use {', '.join(_NUMBERS)} (a number), {choices}"
            )
    if not constraints:
        raise RequestError("why is empty: ask for example why=depth=16")
    return constraints


@dataclass(frozen=True)
class Explanation:
    """What stands behind one question: the constraints, and all that was found."""

    constraints: dict[str, Any]
    everything: Found
    ranking: Ranking
    narrator: Narrator

    def of(self, chosen: Candidate | None) -> WhyNot:
        """The best configuration under the constraints and what it loses by part, or why none fits."""
        meeting = tuple(choice for choice in self.everything.fitting if _meets(choice, self.constraints))
        if not meeting:
            return self._answer(None, _refusal_reason(self.constraints, self.everything.refused))
        candidate = self.narrator.candidate(self.ranking.rank(meeting)[0])
        if chosen is None:
            return self._answer(candidate, "it fits, though the search as asked chose nothing")
        difference = _difference(candidate, chosen)
        slower = candidate.predicted.iteration_s / chosen.predicted.iteration_s - 1
        return self._answer(
            candidate, _sentence(slower, difference), slower_by=slower, difference_s=difference
        )

    def _answer(self, best: Candidate | None, reason: str, **compared: Any) -> WhyNot:
        nothing = {"slower_by": None, "difference_s": None}
        return WhyNot(constraints=self.constraints, best=best, reason=reason, **(nothing | compared))


def _meets(choice: Choice, constraints: dict[str, Any]) -> bool:
    document = choice.configuration.document()
    return all(document[name] == value for name, value in constraints.items())


def _difference(candidate: Candidate, chosen: Candidate) -> Breakdown:
    ours, theirs = candidate.predicted.breakdown, chosen.predicted.breakdown
    return Breakdown(
        compute_s=ours.compute_s - theirs.compute_s,
        bubble_s=ours.bubble_s - theirs.bubble_s,
        p2p_s=ours.p2p_s - theirs.p2p_s,
        all_reduce_s=ours.all_reduce_s - theirs.all_reduce_s,
    )


def _sentence(slower: float, difference: Breakdown) -> str:
    if abs(slower) < 1e-12:
        return "this is the chosen configuration, or as fast"
    parts = {
        "compute": difference.compute_s,
        "bubble": difference.bubble_s,
        "messages between stages": difference.p2p_s,
        "gradient synchronisation": difference.all_reduce_s,
    }
    name, seconds = max(parts.items(), key=lambda part: part[1] if slower > 0 else -part[1])
    word = "slower" if slower > 0 else "faster"
    return f"{abs(slower):.1%} {word}, most of it in {name} ({seconds:+.3g} s an iteration)"


def _refusal_reason(constraints: dict[str, Any], refused: tuple[Refusal | MemoryRefusal, ...]) -> str:
    """The reason of a refusal that answers all the constraints, memory first."""
    matching = [refusal for refusal in refused if _refused_under(refusal, constraints)]
    if not matching:
        asked = ", ".join(f"{name}={value}" for name, value in constraints.items())
        rule = ": the search takes W = P // D; pin width and depth to plan others"
        return f"no legal configuration that could fit has {asked}{rule if 'width' in constraints else ''}"
    return min(matching, key=lambda refusal: refusal.kind != "memory").reason


def _refused_under(refusal: Refusal | MemoryRefusal, constraints: dict[str, Any]) -> bool:
    """Whether it decided on all that was asked, or on nothing else (the width follows the depth)."""
    known = refusal.known()
    if any(known.get(name, value) != value for name, value in constraints.items()):
        return False
    return constraints.keys() <= known.keys() or known.keys() - {"width"} <= constraints.keys()
