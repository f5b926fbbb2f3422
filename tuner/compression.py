"""How much does a compression of gradients send, over which collective, and what does it cost and risk?

| name      | bits that a replica gives     | collective      | what comes of it                   |
|-----------|-------------------------------|-----------------|------------------------------------|
| none      | the gradient's own            | all-reduce      | exact                              |
| fp16 bf16 | 16n                           | all-reduce      | rounded                            |
| topk      | 64k, k = ⌈ratio·n⌉            | all-gather      | biased, with error feedback        |
| gaussiank | 64k                           | all-gather      | biased, with error feedback        |
| qsgd      | 2.8n + 32                     | all-gather      | unbiased                           |
| a2sgd     | 64                            | all-reduce      | replicas drift apart               |
| powersgd  | 64·r·⌈√n⌉                     | two all-reduces | biased, with error feedback        |

n is the number of gradients that one collective reduces. QSGD: arXiv 1610.02132, corollary 3.3 (s = √n
levels); A2SGD: arXiv 2006.07405; Gaussian-K: arXiv 1911.08772; PowerSGD: arXiv 1905.13727, of one square
matrix for each collective. A compression is written as its name, or as name:value: `topk:0.001`,
`powersgd:2`, `a2sgd:100` (weights averaged every 100 steps).
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tuner.errors import UnsupportedOptionError

Floats = NDArray[np.float64]
Name = Literal["none", "fp16", "bf16", "topk", "gaussiank", "qsgd", "a2sgd", "powersgd"]
NAMES: tuple[Name, ...] = get_args(Name)
SUMMED = frozenset({"none", "fp16", "bf16", "a2sgd", "powersgd"})
"""Whose codes add, so that an all-reduce sums them; the others are gathered."""
SCATTERED = frozenset({"none", "fp16", "bf16"})
"""Which a sharded optimizer can have: a reduce-scatter sums pieces of the gradient itself."""
WITH_RESIDUAL = frozenset({"topk", "gaussiank", "powersgd"})
"""Which keep what was not sent and add it to the next gradient (error feedback)."""
MOST_RANK = 64

_BYTES_MOVED = {
    "none": (0.0, 0.0, 0.0),
    "fp16": (6.0, 0.0, 6.0),
    "bf16": (6.0, 0.0, 6.0),
    "topk": (40.0, 0.0, 16.0),
    "gaussiank": (44.0, 0.0, 16.0),
    "qsgd": (195.0, 0.0, 12.0),
    "a2sgd": (30.0, 0.0, 38.0),
    "powersgd": (24.0, 4.0, 32.0),
}
"""Bytes that the executor's operations read and write for each gradient in float32: before its collective,
between that and a second one, and after the last."""
_DECODED = {"topk": 4.0, "gaussiank": 4.0, "qsgd": 430.0}
"""Bytes that they read and write for each byte that is gathered, to decode and add it."""

_RISKS = {
    "none": "exact",
    "fp16": "gradients beyond 65,504 become infinite and those below 6e-8 vanish",
    "bf16": "sums keep 8 bits: small contributions to large gradients are lost",
    "topk": "biased: most gradients arrive late; tune the learning rate again, and compare the loss",
    "gaussiank": "biased: most gradients arrive late; tune the learning rate again, and compare the loss",
    "qsgd": "unbiased, with more variance: the same loss may take more steps",
    "a2sgd": "every replica steps with its own gradient, so replicas drift apart; average their weights",
    "powersgd": "biased: what is not of low rank arrives late; compare the loss",
}


@dataclass(frozen=True)
class Compression:
    """One way to compress the gradients of the data-parallel synchronisation."""

    name: Name = "none"
    ratio: float = 0.01
    """Share of the gradients that topk and gaussiank send."""
    rank: int = 4
    """Columns of powersgd's factors."""
    average_every: int | None = None
    """Steps between two averages of a2sgd's weights; None for never."""

    def __str__(self) -> str:
        value = {"topk": self.ratio, "gaussiank": self.ratio, "powersgd": self.rank}.get(self.name)
        default = {"topk": 0.01, "gaussiank": 0.01, "powersgd": 4}.get(self.name)
        value = self.average_every if self.name == "a2sgd" else value
        return self.name if value == default else f"{self.name}:{value:g}"

    @property
    def collective(self) -> Literal["all_reduce", "all_gather"]:
        """What brings the codes together."""
        return "all_reduce" if self.name in SUMMED else "all_gather"

    @property
    def risk(self) -> str:
        """What it may do to convergence."""
        return _RISKS[self.name]

    def kept(self, elements: Any) -> Any:
        """Of how many gradients topk and gaussiank send value and index: ⌈ratio·n⌉."""
        share = np.ceil(np.round(self.ratio * np.asarray(elements), 6))
        return np.minimum(elements, np.maximum(1, share)).astype(np.int64)

    def factored(self, elements: Any) -> Any:
        """Floats of powersgd's two factors of a square matrix, 0 where the gradient itself is no larger."""
        side = np.ceil(np.sqrt(np.asarray(elements, dtype=np.float64)))
        floats = 2 * side * np.minimum(self.rank, side)
        return np.where(floats < elements, floats, 0).astype(np.int64)

    def volume_bytes(self, elements: Any, element_bytes: int = 4) -> Floats:
        """What a replica gives to the collectives of one step, for gradients of so many bytes each."""
        n = np.asarray(elements, dtype=np.int64)
        if self.name == "none":
            volume = n * element_bytes
        elif self.name in {"fp16", "bf16"}:
            volume = n * 2
        elif self.name == "qsgd":
            volume = -(-(28 * n + 320) // 80)
        elif self.name == "a2sgd":
            volume = np.full_like(n, 8)
        elif self.name == "powersgd":
            factors = self.factored(n)
            volume = 4 * np.where(factors > 0, factors, n)
        else:
            volume = 8 * self.kept(n)
        return np.where(n > 0, volume, 0).astype(np.float64)

    def following_bytes(self, elements: Any) -> Floats:
        """How much of `volume_bytes` goes in a second collective, which needs what the first has summed."""
        factors = self.factored(elements) if self.name == "powersgd" else np.zeros_like(elements)
        return np.asarray(4 * factors / 2, dtype=np.float64)

    def before_s(self, elements: Floats, bytes_per_s: float) -> Floats:
        """Time of compressing on a device whose memory moves so many bytes a second."""
        return np.asarray(elements * _BYTES_MOVED[self.name][0] / bytes_per_s)

    def between_s(self, elements: Floats, bytes_per_s: float) -> Floats:
        """Time of making what a second collective sends from what the first has summed; 0 where none is."""
        moved = np.where(self.following_bytes(elements) > 0, elements * _BYTES_MOVED[self.name][1], 0.0)
        return np.asarray(moved / bytes_per_s)

    def after_s(self, elements: Floats, bytes_per_s: float, *, replicas: int) -> Floats:
        """Time of decompressing what all replicas have sent."""
        moved = np.asarray(elements * _BYTES_MOVED[self.name][2])
        if self.name in _DECODED:
            moved = moved + replicas * self.volume_bytes(elements) * _DECODED[self.name]
        return np.asarray(moved / bytes_per_s)

    def kept_bytes(self, elements: Floats, *, replicas: int) -> Floats:
        """Memory of codes, residual and its successor until the step."""
        if self.name == "none":
            return np.zeros_like(elements)
        copies = 1 + (replicas if self.collective == "all_gather" else 0)
        residual = 8 * elements if self.name in WITH_RESIDUAL else 0.0
        return np.asarray(copies * self.volume_bytes(elements) + residual)


NONE = Compression()


def read_compression(text: str) -> Compression:
    """One compression; raises UnsupportedOptionError saying what may be asked for."""
    name, colon, value = text.strip().partition(":")
    if name not in NAMES:
        raise UnsupportedOptionError(
            f"compression={text[:60]} is not modelled yet: choose from {', '.join(NAMES)}; topk, gaussiank, "
            "powersgd and a2sgd take a value, as in topk:0.001, powersgd:2, a2sgd:100"
        )
    if not colon:
        return Compression(name)
    try:
        if name in {"topk", "gaussiank"} and 0 < float(value) <= 1:
            return Compression(name, ratio=float(value))
        if name == "powersgd" and 1 <= int(value) <= MOST_RANK:
            return Compression(name, rank=int(value))
        if name == "a2sgd" and 1 <= int(value) <= 10**9:
            return Compression(name, average_every=int(value))
    except ValueError:
        pass
    raise UnsupportedOptionError(
        f"compression={text[:60]}: {value[:40]!r} is no value of {name}. topk and gaussiank take the share "
        f"that is sent (above 0, at most 1), powersgd its rank (1 to {MOST_RANK}), a2sgd the steps between "
        "two averages"
    )


def one_compression(text: str) -> Compression:
    """The compression that is named; none where several are, which planning tries one by one."""
    allowed = read_compressions(text)
    return allowed[0] if len(allowed) == 1 else NONE


def read_compressions(text: str) -> tuple[Compression, ...]:
    """What `a,b` allows beside none, each once; `any` allows all. Raises UnsupportedOptionError."""
    names = NAMES if text.strip() == "any" else text.split(",")
    allowed = tuple(dict.fromkeys(map(read_compression, names)))
    return tuple(each for each in allowed if each.name != "none")
