"""`chimera profile`: how long does each layer of a model take, and what does it keep?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.choices import ATTENTIONS, OPTIMIZERS, PRECISIONS
from cli.errors import DONE, InputError

if TYPE_CHECKING:
    from profiles.document import Attention, Precision
    from profiles.model import ModelDescription
    from profiles.timings import Profile

EXAMPLE = "chimera profile --model llama-3-8b --on estimate --accelerator h100-80gb --micro-batch-sizes 1,2,4"
MOST_SIZES = 100


class Sizes(click.ParamType[tuple[int, ...]]):
    """Micro-batch sizes as "1,2,4": read into rising integers without repeats."""

    name = "sizes"

    def convert(
        self, value: str | tuple[int, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Read the text; anything but whole numbers from 1 to 100,000,000 is a usage error."""
        if isinstance(value, tuple):
            return value
        words = [word.strip() for word in value.split(",")]
        if not all(word.isdecimal() and len(word) <= 9 and 1 <= int(word) <= 10**8 for word in words):
            self.fail(
                f"{value[:100]!r} is not a list of whole numbers from 1 to 100,000,000, such as 1,2,4",
                param,
                ctx,
            )
        sizes = sorted({int(word) for word in words})
        if len(sizes) > MOST_SIZES:
            self.fail(f"{len(sizes):,} sizes are more than {MOST_SIZES}", param, ctx)
        return tuple(sizes)


@click.command(epilog=f"\b\nExample:\n  {EXAMPLE}")
@click.option(
    "--model", required=True, metavar="NAME|PATH",
    help="A preset, a config.json or a folder with one; to measure, also module:factory or file.py:factory.",
)  # fmt: skip
@click.option(
    "--on", type=click.Choice(["estimate", "cpu", "cuda"]), required=True, help="`estimate` needs no device."
)
@click.option(
    "--accelerator", metavar="NAME",
    help="Data sheet to estimate for, or of the measured device (`chimera list accelerators`).",
)  # fmt: skip
@click.option(
    "--micro-batch-sizes", type=Sizes(), default="1,2,4,8", metavar="B,B,...", help="Sizes to profile."
)
@click.option("--sequence-length", type=int, show_default="the preset's", help="Required with a config.json.")
@click.option("--precision", type=click.Choice(PRECISIONS), show_default="the preset's, else bfloat16")
@click.option("--attention", type=click.Choice(ATTENTIONS), show_default="the preset's, else flash")
@click.option("--threads", type=click.IntRange(1), default=1, help="Measured on a CPU: ranks run one each.")
@click.option(
    "--processes", type=click.IntRange(1, 64), default=1,
    help="Measured on a CPU by so many at once, as ranks that share the machine.",
)  # fmt: skip
@click.option("--budget", type=click.FloatRange(0), default=2.0, help="Seconds to repeat a layer at a size.")
@click.option("--optimizer", type=click.Choice(OPTIMIZERS), default="adam", help="Whose steps are measured.")
@click.option("--seed", type=int, default=0, help="Of measured weights and samples.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the profile document."
)
@click.option("--json", "as_json", is_flag=True, help="Print the profile document.")
def profile(*, on: str, output: Path | None, as_json: bool, **asked: Any) -> int:
    """Profile the layers of a model, for `chimera plan --model FILE`."""
    measuring = {key: asked.pop(key) for key in ("threads", "processes", "budget", "optimizer", "seed")}
    if on == "estimate":
        document = _estimate(**asked)
    else:
        from cli.measured import measure

        document = measure(on=on, **asked, **measuring)
    hand_out_profile(document, output=output, as_json=as_json)
    return DONE


def _estimate(
    *,
    model: str,
    accelerator: str | None,
    micro_batch_sizes: tuple[int, ...],
    **shape: Any,
) -> Profile:
    from profiles import library
    from profiles.timings import Profile
    from tuner.estimate import estimate_timings

    if accelerator is None:
        raise InputError(
            "--on estimate needs --accelerator NAME; `chimera list accelerators` shows the names"
        )
    description = describe_shape(model, **shape)
    timings = estimate_timings(
        description, library.load_accelerator(accelerator), micro_batch_sizes=micro_batch_sizes
    )
    return Profile(description=description, timings=timings)


def describe_shape(
    model: str, *, sequence_length: int | None, precision: Precision | None, attention: Attention | None
) -> ModelDescription:
    """The description of a preset, or of the config.json at a path."""
    from cli.sources import read_model

    return _describe(
        read_model(model)[0], sequence_length=sequence_length, precision=precision, attention=attention
    )


def _describe(
    model: Any, *, sequence_length: int | None, precision: Precision | None, attention: Attention | None
) -> ModelDescription:
    from profiles import library
    from tuner.estimate import describe

    if isinstance(model, str):
        preset = library.load_model_preset(model)
        return describe(
            preset.config,
            sequence_length=preset.sequence_length if sequence_length is None else sequence_length,
            precision=precision or preset.precision,
            attention=attention or preset.attention,
            name=preset.name,
        )
    if "config" not in model:
        raise InputError("the model is a profile already; pass a preset or a config.json")
    if sequence_length is None:
        raise InputError("--sequence-length is required with a config.json, which does not say it")
    return describe(
        model["config"],
        sequence_length=sequence_length,
        precision=precision or "bfloat16",
        attention=attention or "flash",
        name="config",
    )


def hand_out_profile(document: Profile, *, output: Path | None, as_json: bool) -> None:
    """Write, print or describe a profile, and say what to do with it."""
    from cli.files import hand_out

    hand_out(
        document,
        output=output,
        as_json=as_json,
        told=f"Wrote the profile to {output}. Next: chimera plan --model {output} ...",
        table=lambda: describe_profile(document),
    )


def describe_profile(document: Profile) -> list[str]:
    """Lines for a terminal."""
    from cli.quantities import count, gigabytes, seconds, table

    layers = {layer.type: layer for layer in document.description.layers}
    header = ("layer", "times", "parameters", "B", "forward", "backward", "kept")
    rows = [
        (
            timings.type,
            str(sum(layer.type == timings.type for layer in document.description.layers)),
            count(layers[timings.type].parameters),
            str(point.micro_batch_size),
            seconds(point.forward_s),
            seconds(point.backward_s),
            gigabytes(layers[timings.type].activation_bytes.at(point.micro_batch_size)),
        )
        for timings in document.timings.types
        for point in timings.points
    ]
    description = document.description
    title = (
        f"{description.name}: {count(description.parameters)} parameters on {document.timings.accelerator}, "
        f"sequence {description.sequence_length:,}, {description.precision}"
    )
    return [
        title,
        *table(header, rows),
        "Next: write the profile with -o profile.json, then chimera plan --model profile.json ...",
    ]
