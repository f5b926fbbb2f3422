"""How is it told what compressed gradients would change?"""

from collections.abc import Iterator

from cli.quantities import gigabytes, seconds, table
from tuner.plan import CompressionNote, CompressionOption

_SHOWN_IN_GB = 1_000_000


def describe_compressions(note: CompressionNote) -> Iterator[str]:
    """The compressions that were allowed, beside none, and what the choice risks."""
    yield "Compression of gradients:"
    header = ["", "schedule", "W", "D", "samples/s", "iteration", "all-reduce", "sent by a rank"]
    fitting = [option for option in note.options if option.reason is None]
    yield from table(header, map(_row, fitting))
    for option in note.options:
        if option.reason is not None:
            yield f"  {option.compression}: {option.reason}"
    yield f"  {note.summary[:1].upper()}{note.summary[1:]}."


def _row(option: CompressionOption) -> list[str]:
    return [
        option.compression,
        option.schedule or "",
        str(option.width),
        str(option.depth),
        f"{option.throughput_samples_per_s or 0:,.1f}",
        seconds(option.iteration_s or 0.0),
        seconds(option.all_reduce_s or 0.0),
        _bytes(option.volume_bytes or 0),
    ]


def _bytes(number: int) -> str:
    return gigabytes(number) if number >= _SHOWN_IN_GB else f"{number:,} B"
