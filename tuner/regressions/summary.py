"""How does a pull request show the answer? As Markdown: a table of models, then what is wrong with each."""

from collections.abc import Iterator

from tuner.regressions.answer import CiAnswer, ModelAnswer

_SIGNS = {
    "ok": "✅ ok",
    "new": "🆕 new",
    "regressed": "❌ regressed",
    "not_comparable": "⚪ not comparable",
    "not_measurable": "⚠️ not measurable",
}
_MOST_CHANGES = 20
_MOST_LETTERS = 60_000
"""GitHub takes 65,536 for a comment, and drops what is longer as a whole."""


def markdown(answer: CiAnswer) -> str:
    """A section for the summary of a job or a comment; without its end where it is too long for one."""
    kept, left = [], _MOST_LETTERS
    for line in _lines(answer):
        left -= len(line) + 1
        if left < 0:
            kept += ["", "The rest is too long for a comment: see the JUnit report, or `chimera ci --json`."]
            break
        kept.append(line)
    return "\n".join(kept) + "\n"


def verdict(answer: CiAnswer) -> str:
    """One sentence: how many models are how."""
    words = {"regressed": "regressed", "not_measurable": "could not be measured",
             "not_comparable": "cannot be compared", "new": "new", "ok": "as in the baseline"}  # fmt: skip
    parts = [f"{answer.count(status)} {told}" for status, told in words.items() if answer.count(status)]  # type: ignore[arg-type]
    plural = "s" if len(answer.models) != 1 else ""
    return f"{len(answer.models)} model{plural}: " + ", ".join(parts)


def _lines(answer: CiAnswer) -> Iterator[str]:
    yield "### Chimera: models against their baseline"
    yield ""
    yield verdict(answer) + "."
    yield ""
    yield "| model | status | best configuration | samples/s | memory |"
    yield "|---|---|---|---:|---:|"
    for model in answer.models:
        speed = model.throughput_samples_per_s
        memory = model.peak_memory_bytes
        cells = [
            _plain(model.name),
            _SIGNS[model.status],
            _plain(model.configuration or "none"),
            "" if speed is None else f"{speed:,.2f}",
            "" if memory is None else f"{memory / 1e9:.2f} GB",
        ]
        yield f"| {' | '.join(cells)} |"
    for model in answer.models:
        if model.changes or model.links:
            yield from _changes(model)
    if answer.problems:
        yield ""
        yield from (f"- ⚠️ {_plain(problem)}" for problem in answer.problems)


def _changes(model: ModelAnswer) -> Iterator[str]:
    yield ""
    yield f"**{_plain(model.name)}**"
    yield ""
    ordered = sorted(model.changes, key=lambda change: not change.regression)
    for change in ordered[:_MOST_CHANGES]:
        yield f"- {'❌ ' if change.regression else ''}{_plain(change.message)}"
    if len(ordered) > _MOST_CHANGES:
        yield f"- and {len(ordered) - _MOST_CHANGES} more"
    if model.cause:
        yield f"- Cause: {_plain(model.cause)}"
    if model.links:
        yield f"- {' · '.join(_link(name, url) for name, url in model.links.items())}"


def _link(name: str, url: str) -> str:
    address = "".join(letter for letter in url if letter not in "<>\\" and not letter.isspace())
    return f"[{_plain(name)}](<{address}>)"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    one_line = " ".join(text.split())
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|#@" else letter for letter in one_line)
