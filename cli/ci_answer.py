"""What does `chimera ci` print, and with which exit code does it end?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli.errors import DONE, NEGATIVE, NOT_ANSWERED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tuner.regressions.answer import CiAnswer


def tell(answer: CiAnswer, *, as_json: bool) -> None:
    """Print the document, or a table, what is not as it was, and what to do next."""
    if as_json:
        from profiles.document import canonical_json

        click.echo(canonical_json(answer.model_dump(mode="json")))
    else:
        click.echo("\n".join(_describe(answer)))


def code_of(answer: CiAnswer, *, needs_service: bool) -> int:
    """The exit code; what the service could not do counts where it was needed."""
    if answer.count("regressed") and not answer.accepted:
        return NEGATIVE
    missing = answer.count("not_measurable") or (needs_service and answer.problems)
    return NOT_ANSWERED if missing else DONE


def _describe(answer: CiAnswer) -> Iterator[str]:
    from cli.quantities import gigabytes, table
    from tuner.regressions.summary import verdict

    rows = [
        [
            model.name,
            model.status.replace("_", " "),
            model.configuration or "nothing fits" if model.status != "not_measurable" else "",
            "" if model.throughput_samples_per_s is None else f"{model.throughput_samples_per_s:,.2f}",
            "" if model.peak_memory_bytes is None else gigabytes(model.peak_memory_bytes),
        ]
        for model in answer.models
    ]
    yield from table(["model", "status", "best configuration", "samples/s", "memory"], rows, indent=0)
    for model in answer.models:
        if model.changes or model.links:
            yield ""
            yield f"{model.name}:"
            yield from (f"  {'!' if change.regression else '-'} {change.message}" for change in model.changes)
            yield from [f"  cause: {model.cause}"] if model.cause else []
            yield from (f"  {name}: {url}" for name, url in model.links.items())
    yield ""
    yield f"{verdict(answer)}. {_next(answer)}"


def _next(answer: CiAnswer) -> str:
    if answer.accepted:
        is_file = answer.baseline != "service"
        return f"Next: commit {answer.baseline}." if is_file else "Later checks compare with it."
    if answer.problems and (answer.count("new") or answer.count("not_comparable")):
        return "Next: once more when the service answers, or --baseline FILE to compare with a file."
    if answer.count("regressed"):
        return "Next: repair what is marked with !, or take it over with chimera ci --accept."
    if answer.count("not_measurable"):
        return "Next: repair what could not be measured; nothing else failed."
    if answer.count("new") or answer.count("not_comparable"):
        return "Next: chimera ci --accept writes a baseline to compare with."
    return f"Compared with {answer.baseline}."
