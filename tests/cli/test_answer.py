"""Do people read in an answer what the plan holds, whatever it holds?"""

from typing import Any

from cli.answer import configuration, describe
from tests.plans import make_candidate, make_memory, make_plan, make_prediction
from tuner.plan import Breakdown, ConfigurationDocument, ErrorBar, Plan, Rejected, SmallestChange, WhyNot


def tell(plan: Plan, **options: Any) -> str:
    """The answer as one text."""
    return "\n".join(describe(plan, 0.0125, **options))


def test_a_configuration_is_named_in_both_vocabularies() -> None:
    """The paper's letters beside the words that frameworks use."""
    told = configuration(make_candidate(schedule="chimera", width=8, recompute="stage", pipe_pairs=2))
    assert told.startswith("chimera with W=8 data-parallel x D=4 pipeline, micro-batch size B=4, ")
    assert told.endswith("recomputing whole stages, 4 pipes")
    assert "without a pipeline (D=1)" in configuration(make_candidate(depth=1, stage_layers=(16,)))


def test_the_fullest_rank_is_shown_by_part_with_its_headroom() -> None:
    """Parts of zero bytes are left out, the largest comes first."""
    text = tell(make_plan(make_candidate()))
    assert "rank 0 is the fullest with 12.00 GB of 85.50 GB, reserve included; 73.50 GB (86.0 %) more" in text
    assert "weights 8.00 GB, activations 3.00 GB, reserve 1.00 GB" in text
    assert "optimizer 0" not in text


def test_what_greedy_loses_is_told_with_the_better_configuration() -> None:
    """The regret is no secret of the JSON."""
    better = make_candidate(micro_batch_size=2)
    text = tell(make_plan(make_candidate(), greedy_regret=0.031, greedy_best=better))
    assert "--search exhaustive finds one that is 3.1 % faster: dapple with W=2" in text
    assert "finds nothing faster" in tell(make_plan(make_candidate()))


def test_an_exhaustive_search_tells_what_greedy_would_choose() -> None:
    """By how much it is slower, or that it is as fast."""
    slower = make_candidate(micro_batch_size=2, predicted=make_prediction(iteration_s=2.1))
    text = tell(make_plan(make_candidate(), greedy_choice=slower))
    assert "greedy      would choose dapple with W=2" in text
    assert "this is 5.0 % faster" in text
    assert "as fast" in tell(make_plan(make_candidate(), greedy_choice=make_candidate()))


def test_idle_devices_are_told() -> None:
    """A device that is paid for and not used is in the answer."""
    assert "8 of 8 used, none idle" in tell(make_plan(make_candidate()))
    assert "6 of 8 used, 2 idle" in tell(make_plan(make_candidate(width=1, depth=6), idle_devices=2))


def test_an_error_bar_is_shown_where_there_is_one() -> None:
    """It is learnt from measurements, so it may be missing."""
    sure = make_prediction().model_copy(update={"error_bar": ErrorBar(low_s=1.9, high_s=2.2, coverage=0.9)})
    assert "90.0 % sure: 1.900 s to 2.200 s" in tell(make_plan(make_candidate(predicted=sure)))


def test_ten_candidates_are_shown_unless_more_are_asked_for() -> None:
    """--explain shows all that the plan lists, --top as many as it says."""
    others = [make_candidate(micro_batches=number) for number in range(100, 119)]
    plan = make_plan(make_candidate(), *others)
    rows = [line for line in tell(plan).splitlines() if " dapple " in line and "GB" in line]
    assert len(rows) == 10
    assert "The best 20 of 20 that fit" in tell(plan, explain=True)
    assert "The best 15 of 20 that fit" in tell(make_plan(make_candidate(), *others, request={"top": 15}))


def test_why_not_shows_a_difference_that_adds_up() -> None:
    """Part by part, with the sum at the end; without a candidate there is only the reason."""
    difference = Breakdown(compute_s=0.5, bubble_s=-0.1, p2p_s=0.0, all_reduce_s=0.1)
    why = WhyNot(
        constraints={"depth": 8}, best=make_candidate(depth=8, stage_layers=(2,) * 8), slower_by=0.25,
        difference_s=difference, reason="25 % slower",
    )  # fmt: skip
    text = tell(make_plan(make_candidate(), why=why))
    assert "Why not depth=8? 25 % slower" in text
    assert "+500.000 ms" in text
    assert "iteration  " in text
    assert "-100.000 ms" in text
    tiny = Breakdown(compute_s=2e-13, bubble_s=-2e-13, p2p_s=0.0, all_reduce_s=-3e-10)
    same = tell(make_plan(make_candidate(), why=why.model_copy(update={"difference_s": tiny})))
    assert [line.split()[1:] for line in same.splitlines() if line.startswith("  all-reduce ")] == [["0"]]
    assert "e-" not in same
    alone = why.model_copy(update={"best": None, "difference_s": None, "reason": "no such depth"})
    assert tell(make_plan(make_candidate(), why=alone)).count("no such depth") == 1


def test_nothing_fits_names_memory_before_legality() -> None:
    """The reason that says how much is missing comes first, and the change at the end."""
    rejected = [
        Rejected(
            configuration=ConfigurationDocument(width=8, depth=1), reason="needs an even depth", kind="layout"
        ),
        Rejected(
            configuration=ConfigurationDocument(schedule="dapple", width=4, depth=2, micro_batch_size=1),
            reason="rank 0 needs 91.2 GB of 85.5 GB", kind="memory",
        ),
    ]  # fmt: skip
    change = SmallestChange(
        change="optimizer_sharding=replicas",
        configuration=ConfigurationDocument(schedule="dapple", width=4, depth=2, micro_batch_size=1),
        memory=make_memory(),
    )
    text = tell(make_plan(None, rejected=rejected, smallest_change=change))
    assert text.index("dapple W=4 D=2 B=1: rank 0 needs 91.2 GB") < text.index("needs an even depth")
    assert "The smallest change that fits: optimizer_sharding=replicas." in text
    assert "W=4 data-parallel x D=2 pipeline the fullest rank needs 12.00 GB of 85.50 GB" in text
    assert "No single change" in tell(make_plan(None, rejected=rejected))


def test_a_long_pipeline_shows_the_first_ranks_and_counts_the_others() -> None:
    """A thousand lines are no explanation."""
    text = tell(make_plan(make_candidate(depth=100, stage_layers=(1,) * 100)), explain=True)
    assert "... and 36 more" in text
