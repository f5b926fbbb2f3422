"""Which variants of the schedules are asked for in the tests?"""

from typing import Any

from hypothesis import strategies as st

from tuner.schedules.generators import RECIPES

OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "scaling": st.sampled_from(["direct", "doubling", "halving"]),
    "pipe_pairs": st.integers(1, 4),
    "chunks": st.integers(1, 4),
    "pending": st.integers(1, 16),
}


@st.composite
def variants(draw: st.DrawFn, scheme: str | None = None) -> dict[str, Any]:
    """Keywords of `generate`: any schedule or the one given, D in 1..16, N in 1..64, legal or not."""
    scheme = scheme or draw(st.sampled_from(sorted(RECIPES)))
    depth = draw(st.integers(1, 16))
    multiple = draw(st.booleans())
    counts = st.integers(1, 64 // depth).map(lambda units: units * depth) if multiple else st.integers(1, 64)
    options = {
        name: draw(OPTIONS[name])
        for name in sorted(RECIPES[scheme].options & OPTIONS.keys())
        if draw(st.booleans())
    }
    iterations = draw(st.integers(1, 3))
    return {
        "scheme": scheme,
        "depth": depth,
        "micro_batches": draw(counts),
        "iterations": iterations,
        **options,
    }
