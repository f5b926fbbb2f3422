"""How near to the fastest configuration do ten trials come, and how long does the next proposal take?

    .venv/bin/python -P benchmarks/refinement.py            regret by method, over 10 seeds and 4 requests
    .venv/bin/python -P benchmarks/refinement.py --speed    a study of 1,000 trials

The truth is simulated and not in the model: one rank's stage is slow, small micro-batches are slower than
the profile says, links are three times slower, memory is up to 8 % more than estimated, and every trial has
2 % of noise. Regret is the true time of the fastest that a method measured over that of the fastest that
runs, minus 1. `ranking` tries the model's list from the top; `optuna` knows the space and the measurements
but no model.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from profiles import library
from tuner.choice import Choice
from tuner.configuration import Configuration
from tuner.correction import correct
from tuner.evaluation import Evaluator
from tuner.inputs import gather
from tuner.operation_costs import OperationCosts
from tuner.options import options_with
from tuner.optuna_study import Space, draw, make_study
from tuner.refinement import Budget, refine
from tuner.rehearsal import Rehearsal
from tuner.request import read_request
from tuner.search import Search
from tuner.simulation import simulate
from tuner.trials import Option, Trial, TrialStatus

TRIALS = 10
NOISE = 0.02
SLOW_STAGE = 1.25
LINKS = 3.0
REQUESTS: tuple[dict[str, str | int], ...] = (
    {"model": "bert-48", "cluster": "piz-daint", "devices": 32, "mini_batch_size": 512},
    {"model": "gpt2-32", "cluster": "v100-32", "devices": 32, "mini_batch_size": 96},
    {"model": "gpt2-xl", "cluster": "a100-8", "devices": 8, "mini_batch_size": 128},
    {"model": "llama-2-7b", "cluster": "dgx-h100", "devices": 32, "mini_batch_size": 256},
)


@dataclass(frozen=True)
class World:
    """A request, and what is true of its configurations."""

    name: str
    options: tuple[Option, ...]
    truth_s: dict[Configuration, float]
    needed_bytes: dict[Configuration, float]

    def best_s(self) -> float:
        """The fastest that runs."""
        return min(self.truth_s[o.configuration] for o in self.options if self.runs(o))

    def runs(self, option: Option) -> bool:
        """Whether its memory is enough."""
        return self.needed_bytes[option.configuration] <= option.capacity_bytes

    def trial(self, option: Option, seed: int) -> Trial:
        """What a worker would find; one configuration has one result for each seed."""
        where = option.configuration
        if not self.runs(option):
            return Trial(where, option.predicted_s, TrialStatus.OUT_OF_MEMORY, device_seconds=60.0)
        rank = [o.configuration for o in self.options].index(where)
        noise = float(np.random.default_rng((seed, rank)).normal(1.0, NOISE))
        measured_s = self.truth_s[where] * noise
        devices = where.width * where.depth
        return Trial(
            where,
            option.predicted_s,
            TrialStatus.OK,
            measured_s=measured_s,
            spread_s=NOISE * measured_s,
            peak_bytes=self.needed_bytes[where],
            device_seconds=devices * (30.0 + 12 * measured_s),
        )


def make_world(asked: dict[str, str | int]) -> World:
    """The options of a request, each simulated under costs that the model does not know."""
    evaluator = Evaluator(gather(read_request(asked), library))
    options, rehearsal = options_with(evaluator), Rehearsal(evaluator)
    choices = {choice.configuration: choice for choice in Search(evaluator).exhaustive().fitting}
    truth = {o.configuration: true_s(rehearsal, choices[o.configuration]) for o in options}
    needed = {o.configuration: o.needed_bytes * more_memory(o.configuration) for o in options}
    return World(f"{asked['model']} on {asked['devices']} of {asked['cluster']}", options, truth, needed)


def true_s(rehearsal: Rehearsal, choice: Choice) -> float:
    """The simulated iteration under the true costs."""
    size = choice.configuration.micro_batch_size
    costs = changed(rehearsal.costs(choice.evaluated, choice.index), efficiency=1 + 0.3 / size)
    return simulate(rehearsal.program(choice.configuration, costs), costs).makespan_s


def changed(costs: OperationCosts, *, efficiency: float) -> OperationCosts:
    """One slow stage in the middle, all operations slower at small micro-batches, slower links."""
    slow = np.ones(costs.forward_s.shape[-1])
    slow[len(slow) // 2] = SLOW_STAGE
    factor = efficiency * slow
    return replace(
        costs,
        forward_s=costs.forward_s * factor,
        backward_s=costs.backward_s * factor,
        weight_gradient_s=costs.weight_gradient_s * factor,
        recompute_s=costs.recompute_s * factor,
        sync_s=costs.sync_s * LINKS,
        latency_s=costs.latency_s * LINKS,
        seconds_per_byte=costs.seconds_per_byte * LINKS,
    )


def more_memory(configuration: Configuration) -> float:
    """What fragmentation adds: more without recomputation."""
    return 1.08 if configuration.recompute == "none" else 1.02


Method = Callable[[World, list[Trial], int], Option | None]


def refined(world: World, trials: list[Trial], seed: int) -> Option | None:
    """The product's next."""
    decision = refine(world.options, trials, seed=seed, budget=Budget(trials=TRIALS))
    found = {option.configuration: option for option in world.options}
    return found[decision.proposals[0].configuration] if decision.proposals else None


def optuna_alone(world: World, trials: list[Trial], seed: int) -> Option:
    """The nearest untried configuration to what Optuna draws."""
    space = Space([option.configuration for option in world.options])
    tried = {trial.configuration for trial in trials}
    left = [option for option in world.options if option.configuration not in tried]
    study = make_study(trials, space, seed=seed + 1_000 * len(trials))
    point = draw(study, space, 1)[0]
    return left[int(space.distances(point, [option.configuration for option in left]).argmin())]


def at_random(world: World, trials: list[Trial], seed: int) -> Option:
    """Any that was not tried."""
    tried = {trial.configuration for trial in trials}
    left = [option for option in world.options if option.configuration not in tried]
    return left[int(np.random.default_rng((seed, len(trials))).integers(len(left)))]


def down_the_ranking(world: World, trials: list[Trial], _seed: int) -> Option:
    """The model's list."""
    return world.options[len(trials)]


METHODS: dict[str, Method] = {
    "refined": refined,
    "optuna": optuna_alone,
    "ranking": down_the_ranking,
    "random": at_random,
}


def study(world: World, method: Method, seed: int) -> list[Trial]:
    """At most TRIALS trials, one after the other."""
    trials: list[Trial] = []
    while len(trials) < TRIALS:
        option = method(world, trials, seed)
        if option is None:
            break
        trials.append(world.trial(option, seed))
    return trials


def regret(world: World, trials: Sequence[Trial]) -> float:
    """Of the fastest measured; of the model's first choice without trials, or where nothing ran."""
    measured = [trial for trial in trials if trial.measured_s]
    if not measured:
        return float("inf")
    picked = min(measured, key=lambda trial: trial.measured_s or 0.0)
    return world.truth_s[picked.configuration] / world.best_s() - 1


def table(seeds: int) -> None:
    """Mean and worst regret, and trials, of every method."""
    for asked in REQUESTS:
        world = make_world(asked)
        model = next(option for option in world.options if world.runs(option))
        lost = world.truth_s[model.configuration] / world.best_s() - 1
        error = statistics.mean(
            abs(o.predicted_s / world.truth_s[o.configuration] - 1) for o in world.options
        )
        print(
            f"{world.name}: {len(world.options)} configurations, model off by {error:.1%}, "
            f"its choice loses {lost:.1%}"
        )
        for name, method in METHODS.items():
            studies = [study(world, method, seed) for seed in range(seeds)]
            found = [regret(world, trials) for trials in studies]
            trials = statistics.mean(map(len, studies))
            print(
                f"  {name:10} regret mean {statistics.mean(found):6.2%}, worst {max(found):6.2%}, "
                f"{trials:4.1f} trials"
            )


def speed() -> None:
    """The next proposal in a study of 1,000 trials, beside a loop that any change of machine moves alike."""
    options, trials = large_study()
    space = Space([option.configuration for option in options])
    rows = {
        "reference loop (3 million additions)": reference_loop,
        "Optuna's study of 1,000 trials": lambda: make_study(trials, space, seed=0),
        "times corrected by 1,000 trials": lambda: correct(trials, options),
        "next proposal after 10 trials": lambda: refine(options, trials[:10], seed=0),
        "next proposal after 1,000 trials": lambda: refine(options, trials, seed=0),
    }
    assert refine(options, trials, seed=0).proposals, "the study must go on to be timed"
    medians = {name: median_s(timed) for name, timed in rows.items()}
    reference_s = next(iter(medians.values()))
    print(f"{'':40}{'seconds':>8}{'x reference':>13}")
    for name, taken_s in medians.items():
        print(f"{name:40}{taken_s:8.3f}{taken_s / reference_s:13.2f}")


def large_study() -> tuple[list[Option], list[Trial]]:
    """1,500 options and trials of 1,000 of them: the largest run out of memory, every tenth is running."""
    random = np.random.default_rng(0)
    options, trials = [], []
    for number in range(1_500):
        depth, size = 2 ** (number % 6), 1 + number // 30
        where = Configuration(
            schedule=("chimera", "dapple", "gpipe", "gems", "zb_h1")[number // 6 % 5],
            width=64 // depth,
            depth=depth,
            micro_batch_size=size,
            micro_batches=64,
        )
        shares = tuple(random.uniform(0.0, 0.3, 3).tolist())
        options.append(Option(where, float(random.uniform(1, 2)), 40e9 + size * 0.8e9, 80e9, shares))
    for number in random.permutation(1_500)[:1_000].tolist():
        option, status = options[number], TrialStatus.RUNNING if number % 10 == 0 else TrialStatus.OK
        if option.needed_bytes > 0.95 * option.capacity_bytes:
            status = TrialStatus.OUT_OF_MEMORY
        took = option.predicted_s * float(random.normal(1.2, 0.1)) if status is TrialStatus.OK else None
        trials.append(Trial(option.configuration, option.predicted_s, status, measured_s=took))
    return options, trials


def median_s(timed: Callable[[], object], repeats: int = 7) -> float:
    """Of some runs, after one that is not counted."""
    taken = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        timed()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:])


def reference_loop() -> int:
    """Work that depends on nothing but the machine."""
    total = 0
    for number in range(3_000_000):
        total += number
    return total


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--speed", action="store_true", help="time a study of 1,000 trials instead")
    parser.add_argument("--seeds", type=int, default=10)
    asked = parser.parse_args()
    speed() if asked.speed else table(asked.seeds)


if __name__ == "__main__":
    main()
