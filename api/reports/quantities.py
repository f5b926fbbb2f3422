"""How is a number written for people? Three digits or so, a no-break space, and its unit."""

NO_BREAK = "\N{NO-BREAK SPACE}"
SCHEDULE_NAMES = {
    "chimera": "Chimera",
    "gpipe": "GPipe",
    "dapple": "DAPPLE (1F1B)",
    "gems": "GEMS",
    "pipedream": "PipeDream",
    "pipedream_2bw": "PipeDream-2BW",
    "pipemare": "PipeMare",
    "interleaved": "Interleaved 1F1B",
    "zb_h1": "Zero bubble H1",
    "zb_v": "Zero bubble V",
    "dualpipe": "DualPipe",
    "chimera_split": "Chimera, split backward",
}
NAMES_ELSEWHERE = {
    "dapple": "1F1B",
    "interleaved": "1F1B with virtual pipeline stages",
    "gpipe": "GPipe (torchtitan)",
    "zb_v": "ZBVZeroBubble (torchtitan)",
}
"""What Megatron, DeepSpeed or torchtitan call a schedule that they have."""
RECOMPUTE_NAMES = {
    "none": "no recomputation",
    "stage": "recompute from stage inputs",
    "layer": "recompute from layer inputs",
}
_LARGE = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_LISTED = 12
_DAY = 86_400.0
_AGES = (((1.0, 90.0), "s"), ((60.0, 5_400.0), "min"), ((3_600.0, 2 * _DAY), "h"))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def digits(value: float) -> str:
    """Three significant digits, or the whole part: 155.8 -> 156, 9.163 -> 9.16, 19940 -> 19,940."""
    if value == 0:
        return "0"
    decimals = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    if abs(value) < 0.1:
        return f"{value:.2g}"
    return f"{value:,.{decimals}f}"


def count(value: float) -> str:
    """A count: in full up to five digits, then with a letter: 669.8 M."""
    if abs(value) < 1e5:
        return f"{value:,.0f}"
    size, letter = next((entry for entry in _LARGE if abs(value) >= entry[0]), (1e3, "k"))
    return f"{digits(value / size)}{NO_BREAK}{letter}"


def gigabytes(value: float) -> str:
    """Bytes in GB = 1e9 B."""
    return f"{digits(value / 1e9)}{NO_BREAK}GB"


def gibibytes(value: float) -> str:
    """Bytes in GiB = 2^30 B."""
    return f"{digits(value / 2**30)}{NO_BREAK}GiB"


def si(value: float, unit: str) -> str:
    """With a letter from micro to exa: 1.2 ms, 340 GB, 7 µs."""
    sizes = (*_LARGE, (1.0, ""), (1e-3, "m"), (1e-6, "µ"))
    size, letter = next((entry for entry in sizes if abs(value) >= entry[0] * (1 - 1e-9)), (1e-9, "n"))
    return f"{value / size:.3g}{NO_BREAK}{letter}{unit}" if value else f"0{NO_BREAK}{unit}"


def seconds(value: float) -> str:
    """A duration in the unit that suits it."""
    size, unit = next((entry for entry in _TIMES if abs(value) >= entry[0]), _TIMES[-1])
    return f"{digits(value / size)}{NO_BREAK}{unit}"


def age(value: float) -> str:
    """How long ago, in one unit: 12 s, 3 min, 5 h, 4 days."""
    for size, unit in _AGES:
        if value < size[1]:
            return f"{max(0, value) / size[0]:.0f}{NO_BREAK}{unit}"
    return f"{value / _DAY:,.0f}{NO_BREAK}days"


def percent(share: float) -> str:
    """A share as a percentage, one decimal."""
    return f"{share * 100:,.1f}{NO_BREAK}%"


def rate(value: float, unit: str) -> str:
    """A rate: 19,940 tokens/s."""
    return f"{digits(value) if value < 1e6 else count(value)}{NO_BREAK}{unit}"


def schedule(name: str) -> str:
    """A schedule by its usual name."""
    return SCHEDULE_NAMES.get(name, name)


def elsewhere(name: str) -> str:
    """A schedule as other frameworks call it."""
    return NAMES_ELSEWHERE.get(name, "not there; our executor has it")


def recompute(name: str) -> str:
    """What is recomputed, in words."""
    return RECOMPUTE_NAMES.get(name, name)


def runs(counts: tuple[int, ...]) -> str:
    """A list of counts; a long one has its repeats drawn together: "6 (×20), 7"."""
    if len(counts) <= _LISTED:
        return ", ".join(map(str, counts))
    groups: list[tuple[int, int]] = []
    for value in counts:
        if groups and groups[-1][0] == value:
            groups[-1] = (value, groups[-1][1] + 1)
        else:
            groups.append((value, 1))
    return ", ".join(f"{value} (×{times})" if times > 1 else str(value) for value, times in groups)


FILTERS = {
    "digits": digits,
    "count": count,
    "gigabytes": gigabytes,
    "gibibytes": gibibytes,
    "seconds": seconds,
    "age": age,
    "percent": percent,
    "si": si,
    "rate": rate,
    "schedule": schedule,
    "elsewhere": elsewhere,
    "recompute": recompute,
    "runs": runs,
}
"""What templates call them."""
