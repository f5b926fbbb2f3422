"""`chimera tune`: which configuration is fastest when it is really run?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.errors import DONE, NEGATIVE, NOT_ANSWERED
from cli.launching import LAUNCHING
from cli.options import NOT_MODELLED, SEARCH, TRAINING, WHAT, with_options
from cli.profile import Sizes

if TYPE_CHECKING:
    from cli.tuning import Tuned

EXAMPLE = "chimera tune --model tiny-gpt --cluster local-cpu --devices 2 --mini-batch-size 16 --trials 3"

SPACE = (
    *SEARCH[:-3],  # without --search, which has another default here, --top and --why
    click.option(
        "--search", type=click.Choice(["greedy", "exhaustive"]), default="exhaustive",
        help="Where trials are chosen from: every B, recomputation and number of pipes, or the greedy ones.",
    ),
    SEARCH[-2],
)  # fmt: skip

MEASURED_FIRST = (
    click.option(
        "--profile", metavar="PATH", show_default="measured here",
        help="Times of the model's layers (`chimera profile`), instead of measuring them.",
    ),
    click.option(
        "--micro-batch-sizes", type=Sizes(), metavar="B,B,...", show_default="powers of two",
        help="Sizes at which layers are measured.",
    ),
    click.option(
        "--budget", type=click.FloatRange(0), default=0.2, help="Seconds to repeat a layer at a size."
    ),
    click.option(
        "--save-profile", type=click.Path(path_type=Path), metavar="FILE", help="Write the measured profile."
    ),
    click.option(
        "--save-cluster", type=click.Path(path_type=Path), metavar="FILE",
        help="Write the cluster with the measured links.",
    ),
)  # fmt: skip

TRIALS = (
    click.option("--trials", type=click.IntRange(1, 10_000), default=10, help="At most so many."),
    click.option(
        "--device-seconds", type=click.FloatRange(0, min_open=True),
        help="At most so many seconds of trials, times the devices that they hold.",
    ),
    click.option("--timeout", type=click.FloatRange(1), default=300.0, help="Seconds that a trial may take."),
    click.option("--memory-limit", type=int, metavar="BYTES", help="Of each rank, beyond its start."),
    click.option("--seed", type=click.IntRange(0), default=0, help="Of weights, samples and the sampler."),
)  # fmt: skip

WHERE = (
    *LAUNCHING[:4],
    click.option("--slurm-partition", metavar="NAME", show_default="Slurm's", help="Slurm: where to queue."),
    *LAUNCHING[5:],  # without --partition, which is how a plan cuts the model
)

OUTPUT = (
    click.option(
        "-o", "--output", type=click.Path(path_type=Path), metavar="FILE",
        help="Keep the trials as measurements, for `chimera score`, and go on from those that are there.",
    ),
    click.option(
        "--report", type=click.Path(path_type=Path), metavar="FILE.html", help="Write the report page."
    ),
    click.option(
        "--export-optuna", type=click.Path(path_type=Path), metavar="FILE",
        help="Write the study as a journal of Optuna, for optuna-dashboard.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
)  # fmt: skip


@click.command(epilog=f"\b\nExample:\n  {EXAMPLE}")
@with_options(WHAT + TRAINING + SPACE + NOT_MODELLED + MEASURED_FIRST + TRIALS + WHERE + OUTPUT)
def tune(*, as_json: bool, **asked: Any) -> int:
    """Plan, then run the most promising configurations.

    Layers and links are measured on this machine first, unless they are given. Every trial corrects the model
    and what is tried next; when nothing can win any more, the fastest that was measured is the choice.
    """
    from cli.tuning import tune as tune_here

    tuned = tune_here(asked)
    if as_json:
        from profiles.document import canonical_json

        told = tuned.document.model_dump(mode="json") | {"search_s": tuned.search_s}
        click.echo(canonical_json(told))
    else:
        from cli.tuned import describe

        click.echo("\n".join(describe(tuned.document)))
    return exit_code_of(tuned)


def exit_code_of(tuned: Tuned) -> int:
    """0 something was measured, 1 nothing fits, 3 it could not be measured."""
    from tuner.trials import TrialStatus

    if tuned.document.chosen is None:
        return NEGATIVE
    statuses = {trial.status for trial in tuned.document.trials}
    if statuses & {TrialStatus.OK, TrialStatus.NOISY}:
        return DONE
    return NEGATIVE if statuses == {TrialStatus.OUT_OF_MEMORY} else NOT_ANSWERED
