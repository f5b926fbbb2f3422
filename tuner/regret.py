"""What does it cost to pick by prediction among alternatives that were all measured?

Alternatives are the measurements of one model on equal devices with one mini-batch. The pick is the one with
the least predicted iteration time, and its regret is its measured time over the best measured, minus 1.
"""

from collections import defaultdict
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from profiles.measurement import Measurement
from tuner.replay import model_name


class Choice(BaseModel):
    """A pick among alternatives."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    model: str
    cluster: str
    devices: int
    mini_batch_size: int
    alternatives: int
    picked: dict[str, str | int]
    best: dict[str, str | int]
    regret: float


def choices(rows: Sequence[tuple[Measurement, float, float]]) -> tuple[Choice, ...]:
    """The pick of every group of two or more, from measurements with measured and predicted seconds."""
    groups: dict[tuple[str, str, int, int, int, str], list[tuple[Measurement, float, float]]] = defaultdict(
        list
    )
    for row in rows:
        measured, ran = row[0], row[0].configuration
        key = (model_name(measured), measured.cluster, measured.devices, ran.mini_batch_size)
        groups[*key, measured.sequence_length, measured.precision].append(row)
    return tuple(_choice(group) for _, group in sorted(groups.items()) if len(group) > 1)


def mean_regret(picked: Sequence[Choice]) -> float | None:
    """Over all groups."""
    return sum(choice.regret for choice in picked) / len(picked) if picked else None


def exact_best(picked: Sequence[Choice]) -> float | None:
    """Share of the groups in which the pick is the best, or as fast."""
    return sum(choice.regret == 0 for choice in picked) / len(picked) if picked else None


def _choice(group: list[tuple[Measurement, float, float]]) -> Choice:
    picked = min(group, key=lambda row: row[2])
    best = min(group, key=lambda row: row[1])
    measured = best[0]
    return Choice(
        model=model_name(measured),
        cluster=measured.cluster,
        devices=measured.devices,
        mini_batch_size=measured.configuration.mini_batch_size,
        alternatives=len(group),
        picked=picked[0].configuration.model_dump(mode="json"),
        best=measured.configuration.model_dump(mode="json"),
        regret=picked[1] / best[1] - 1,
    )
