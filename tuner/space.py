"""Which layouts and micro-batch sizes are legal?"""

from dataclasses import dataclass
from functools import lru_cache

from tuner.errors import RequestError
from tuner.request import MAX_MINI_BATCH, PlanRequest
from tuner.schedules import Scheme

TARGET_SCHEDULES = {
    "megatron": ("dapple", "interleaved"),
    "deepspeed": ("dapple",),
    "torchtitan": ("gpipe", "dapple", "interleaved", "zb_v"),
}
"""What each framework can run; `any` and `own` run all."""

TARGET_RECOMPUTE = {"megatron": ("none", "layer"), "torchtitan": ("none", "layer")}
"""Recomputation that each framework has, where it lacks one."""

TARGET_FILLED = {"torchtitan": ("dapple",)}
"""Schedules that a framework refuses where N < D, as torch's Schedule1F1B does."""

MOST_DEPTH = 512
"""Deepest pipeline considered: the work of a search grows with the square of the depth."""


@dataclass(frozen=True)
class Layout:
    """W pipeline groups of D ranks."""

    width: int
    depth: int


def layouts(request: PlanRequest, blocks: int) -> list[Layout]:
    """Every (W, D) with W = P // D and 1 <= D <= blocks, at most MOST_DEPTH, or the pinned ones.

    Raises RequestError where a pin allows none.
    """
    devices = request.devices
    if request.depth is not None:
        if request.depth > MOST_DEPTH:
            raise RequestError(f"depth {request.depth:,} exceeds the {MOST_DEPTH} ranks that are considered")
        if request.depth > blocks:
            raise RequestError(
                f"depth {request.depth} exceeds the model's {blocks} blocks: use D <= {blocks}"
            )
        if request.depth > devices:
            raise RequestError(f"depth {request.depth} needs as many devices, but devices is {devices}")
        return [Layout(request.width or devices // request.depth, request.depth)]
    if request.width is not None:
        if request.width > devices:
            raise RequestError(f"width {request.width} needs as many devices, but devices is {devices}")
        depth = devices // request.width
        if depth > blocks:
            raise RequestError(
                f"width {request.width} on {devices} devices means depth {depth}, more than the model's "
                f"{blocks} blocks: use W >= {-(-devices // blocks)} or pin a depth too"
            )
        return [Layout(request.width, depth)]
    return [Layout(devices // depth, depth) for depth in range(1, min(devices, blocks, MOST_DEPTH) + 1)]


def batch_fault(request: PlanRequest, layout: Layout) -> str | None:
    """Why no micro-batch size divides the mini-batch over this width, or None."""
    if request.mini_batch_size % layout.width:
        return (
            f"the mini-batch of {request.mini_batch_size:,} does not divide over W={layout.width:,} "
            f"pipelines{_narrower(request, layout)}"
        )
    if request.micro_batch_size and request.mini_batch_size % (layout.width * request.micro_batch_size):
        return (
            f"the mini-batch of {request.mini_batch_size:,} does not divide by "
            f"W·B = {layout.width:,}·{request.micro_batch_size:,}"
        )
    return None


def _narrower(request: PlanRequest, layout: Layout) -> str:
    """How to plan the same depth with fewer pipelines, over which the mini-batch divides; empty if none."""
    samples, rest = divmod(request.mini_batch_size, request.micro_batch_size or 1)
    if rest:
        return ""
    width = max(fewer for fewer in divisors(samples) if fewer < layout.width)
    idle = request.devices - width * layout.depth
    return f": pin width={width} and depth={layout.depth} to plan it with {idle:,} devices idle"


def refuse_batch(request: PlanRequest, tried: list[Layout]) -> RequestError:
    """What to say when the mini-batch divides over no layout at all."""
    widths = sorted({layout.width for layout in tried})
    smallest, size = widths[0], request.mini_batch_size
    unit = smallest * (request.micro_batch_size or 1)
    near = [n for n in (size // unit * unit, (size // unit + 1) * unit) if 0 < n <= MAX_MINI_BATCH]
    shown = ", ".join(map(str, widths[:8])) + (", ..." if len(widths) > 8 else "")
    pinned = f" with B={request.micro_batch_size}" if request.micro_batch_size else ""
    remedies = [f"a mini-batch of {' or '.join(f'{n:,}' for n in near)}"] if near else []
    remedies += ["another micro-batch size"] if pinned else []
    return RequestError(
        f"a mini-batch of {size:,} divides over none of the widths W = {shown} that {request.devices:,} "
        f"devices allow{pinned}: use {', '.join([*remedies, 'or other devices'])}"
    )


@lru_cache(maxsize=64)
def divisors(number: int) -> tuple[int, ...]:
    """All divisors in rising order."""
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return (*small, *(number // d for d in reversed(small) if d * d != number))


def all_sizes(request: PlanRequest, layout: Layout) -> list[int]:
    """Every micro-batch size that divides the mini-batch over the layout, or the pinned one."""
    if request.micro_batch_size:
        return [request.micro_batch_size]
    return list(divisors(request.mini_batch_size // layout.width))


def greedy_sizes(request: PlanRequest, layout: Layout, scheme: Scheme) -> list[int]:
    """The sizes that the greedy rule tries, largest first: powers of two that leave N >= D micro-batches.

    pipedream takes B = B̂/W (N = 1); where even B = 1 leaves N < D, it is B = 1.
    """
    if request.micro_batch_size:
        return [request.micro_batch_size]
    share = request.mini_batch_size // layout.width
    if scheme.name == "pipedream":
        return [share]
    needed = scheme.smallest_micro_batches(layout.depth)
    powers = [1 << power for power in range(share.bit_length()) if share % (1 << power) == 0]
    enough = [size for size in powers if share // size >= needed]
    return enough[::-1] or [1]
