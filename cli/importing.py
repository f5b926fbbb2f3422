"""`chimera import`: what do a trace, a table of times or somebody's Megatron-LM flags say?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.choices import ATTENTIONS, PRECISIONS
from cli.errors import DONE, NEGATIVE, InputError
from cli.profile import Sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from profiles.device import Accelerator
    from profiles.timings import Profile
    from tuner.imports.layer_times import LayerTime, Names

MOST_TRACE_BYTES = 1_000_000_000

TIMES_EXAMPLE = "chimera import times times.csv --model tiny-gpt --accelerator cpu -o profile.json"
MEGATRON_EXAMPLE = (
    "chimera import megatron --model llama-2-7b --cluster dgx-h100 --devices 64 -- --bf16 "
    "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 4 --micro-batch-size 1 "
    "--global-batch-size 512"
)


@click.group("import", epilog=f"\b\nExample:\n  {MEGATRON_EXAMPLE}")
def import_group() -> None:
    """Read what other tools measured or run."""


@import_group.command(epilog=f"\b\nExample:\n  {TIMES_EXAMPLE}")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--model", required=True, metavar="NAME|PATH", help="A preset, or a config.json or its folder.")
@click.option("--accelerator", required=True, metavar="NAME", help="Data sheet of the device that was timed.")
@click.option("--sequence-length", type=int, help="Tokens per sample; required with a config.json.")
@click.option("--precision", type=click.Choice(PRECISIONS), show_default="the preset's, else bfloat16")
@click.option("--attention", type=click.Choice(ATTENTIONS), show_default="the preset's, else flash")
@click.option(
    "--micro-batch-sizes", type=Sizes(), metavar="B,B,...",
    help="Of each file in turn; a CSV may have a column micro_batch_size instead.",
)  # fmt: skip
@click.option(
    "--match", multiple=True, metavar="TYPE=PATTERN",
    help="Names that stand for a type of layer, as in --match 'block=*Block_*'.",
)  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the profile.")
@click.option("--json", "as_json", is_flag=True, help="Print the profile document.")
def times(
    *,
    files: tuple[Path, ...],
    micro_batch_sizes: tuple[int, ...] | None,
    match: tuple[str, ...],
    output: Path | None,
    as_json: bool,
    accelerator: str,
    **shape: Any,
) -> int:
    """Make a profile of layer times.

    FILE is a CSV with the columns layer, forward_ms and backward_ms (or _s, _us), or a trace of
    torch.profiler in which layers are ranges of their names. What was not timed is estimated.
    """
    from cli.profile import describe_shape, hand_out_profile
    from profiles import library
    from tuner.imports.layer_times import names_of, profile_from_times

    description = describe_shape(**shape)
    names = names_of(description, [_pattern(text) for text in match])
    found = _times(files, micro_batch_sizes, names)
    source = ", ".join(path.name for path in files)
    sheet = library.load_accelerator(accelerator)
    document = profile_from_times(description, found, sheet, names=names, source=source)
    for note in (*document.timings.notes, *_doubts(document, sheet)):
        click.echo(f"Note: {note}", err=True)
    hand_out_profile(document, output=output, as_json=as_json)
    return DONE


def _doubts(document: Profile, sheet: Accelerator) -> Iterator[str]:
    """What cannot be true of the times that were read, such as milliseconds under the name of seconds."""
    from tuner.estimate import peak_flops_of
    from tuner.plausibility import doubts

    layers = {layer.type: layer for layer in document.description.layers}
    peak = peak_flops_of(sheet, document.description.precision)
    for timings in document.timings.types:
        yield from doubts(layers[timings.type], timings, peak_flops=peak)


def _pattern(text: str) -> tuple[str, str]:
    wanted, equals, pattern = text.partition("=")
    if not equals or not pattern:
        raise InputError(f"--match {text[:60]!r}: write a type of layer and a pattern, as block=*Block_*")
    return wanted, pattern


def _times(files: tuple[Path, ...], sizes: tuple[int, ...] | None, names: Names) -> list[LayerTime]:
    if sizes is not None and len(sizes) != len(files):
        raise InputError(f"--micro-batch-sizes has {len(sizes)} sizes for {len(files)} files: give one each")
    found: list[LayerTime] = []
    for place, path in enumerate(files):
        found += _read(path, None if sizes is None else sizes[place], names)
    return found


def _read(path: Path, size: int | None, names: Names) -> list[LayerTime]:
    """The times of a file, which is a trace where it is JSON, zipped or not."""
    import gzip
    import io
    import json

    from cli.files import read_bounded
    from tuner.imports.csv_times import read_csv
    from tuner.imports.kineto import read_trace

    name, raw = str(path)[:200], read_bounded(path, most=MOST_TRACE_BYTES)
    try:
        if raw.startswith(b"\x1f\x8b"):
            raw = gzip.GzipFile(fileobj=io.BytesIO(raw)).read(MOST_TRACE_BYTES + 1)
            if len(raw) > MOST_TRACE_BYTES:
                raise InputError(f"{name} unpacks to more than {MOST_TRACE_BYTES:,} bytes: trace less")
        if not raw.lstrip(b"\xef\xbb\xbf \r\n\t").startswith((b"{", b"[")):
            return list(read_csv(raw.decode("utf-8"), name=name, micro_batch_size=size))
        if size is None:
            raise InputError(f"{name} is a trace, which does not tell its size: give --micro-batch-sizes")
        # Names in traces are what the profiler found: broken letters and control characters do no harm.
        document = json.loads(raw.decode("utf-8-sig", "replace"), strict=False)
        return list(read_trace(document, name=name, micro_batch_size=size, names=names))
    except (UnicodeDecodeError, ValueError, RecursionError, EOFError, OSError) as error:
        raise InputError(f"{name} is neither CSV nor a trace: {error}") from None


@import_group.command(
    epilog=f"\b\nExample:\n  {MEGATRON_EXAMPLE}", context_settings={"ignore_unknown_options": True}
)
@click.argument("flags", nargs=-1, type=click.UNPROCESSED, metavar="FILE | -- FLAGS...")
@click.option(
    "--model", metavar="NAME|PATH", show_default="what the flags describe",
    help="A preset, or a config.json or its folder.",
)  # fmt: skip
@click.option("--cluster", metavar="NAME|PATH", help="A preset or a cluster document.")
@click.option("--accelerator", metavar="NAME", help="Data sheet to use instead of the cluster's own.")
@click.option("--devices", type=int, show_default="torchrun's in the text", help="All of them, W x D x T.")
@click.option("--margin", type=float, default=0.05, help="Share of the memory that is kept free.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def megatron(*, flags: tuple[str, ...], as_json: bool, **asked: Any) -> int:
    """Tell what to run instead of a Megatron-LM run.

    FILE holds the flags, or the script that starts the run; - is stdin. The best is looked for within the
    run's tensor parallelism.
    """
    from cli.compared import describe_comparison
    from cli.sources import read_cluster, read_model
    from profiles import library
    from tuner.imports.comparison import compare
    from tuner.imports.megatron_flags import read_flags

    model = read_model(asked["model"])[0] if asked["model"] else None
    if isinstance(model, dict) and "profile" in model:
        raise InputError("a profile is of whole layers; give --model the preset or config.json it is of")
    cluster = read_cluster(asked["cluster"]) if asked["cluster"] else None
    found = compare(read_flags(_text(flags)), asked | {"model": model, "cluster": cluster}, library)
    if as_json:
        from profiles.document import canonical_json

        click.echo(canonical_json(found.model_dump(mode="json")))
    else:
        click.echo("\n".join(describe_comparison(found)))
    return DONE if found.plan.chosen else NEGATIVE


def _text(flags: tuple[str, ...]) -> str:
    """The flags themselves, or what the one file holds."""
    import shlex

    from cli.files import read_bounded
    from tuner.imports.megatron_flags import MOST_CHARACTERS

    if not flags:
        raise InputError("give a file with the flags, or the flags after --")
    if len(flags) > 1 or flags[0].startswith("--"):
        return shlex.join(flags)
    path = Path("/dev/stdin" if flags[0] == "-" else flags[0])
    return read_bounded(path, most=MOST_CHARACTERS).decode("utf-8", "replace")
