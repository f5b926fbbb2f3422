"""Is the report a faithful picture of the plan, and one that opens anywhere?"""

import json
import re
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from api.reports.memory import PARTS, fullest
from api.reports.reasons import rejected_groups, shares, why_chosen
from api.reports.report import render_report
from cli.answer import describe
from profiles import library
from tests.api.conftest import BERT, NO_FIT
from tests.api.page import Page
from tests.plans import answer_once
from tuner.plan import Plan, RankMemory, Rejected
from tuner.request import read_request

ATTACK = '"><script>alert(1)</script>'


def make(**options: Any) -> Plan:
    """A plan of the paper's model, or with other options."""
    return answer_once(read_request(BERT | options), library)


def charts(page: str) -> dict[str, Any]:
    """What a page gives to its charts."""
    found = re.search(r'<script type="application/json" id="charts">(.*?)</script>', page)
    return json.loads(found[1]) if found else {}


def test_the_charts_hold_every_layout_and_every_byte() -> None:
    """Layouts that give nothing come with their reason; the parts of a rank sum to its total."""
    plan = make()
    drawn = charts(render_report(plan, standalone=False))
    assert len(drawn["throughput"]["best"]) + len(drawn["throughput"]["none"]) == len(plan.layouts)
    assert all(entry["reason"] for entry in drawn["throughput"]["none"])
    assert plan.chosen is not None
    for at, rank in enumerate(plan.chosen.memory):
        total = sum(part["sizes"][at] for part in drawn["memory"]["parts"])
        assert total == pytest.approx(rank.total_bytes / 1e9)


def test_the_compressions_that_were_allowed_stand_in_the_report() -> None:
    """With what the choice risks, and why one is out of the question."""
    plan = make(compression="topk,qsgd,fp16", optimizer_sharding="replicas")
    page = render_report(plan, standalone=False)
    assert plan.compression is not None
    assert plan.compression.summary[1:] in page
    assert "codes of qsgd do not add" in page
    assert "Compression of gradients" not in render_report(make(), standalone=False)


def test_every_part_of_the_memory_has_a_name() -> None:
    """A part that the plan adds cannot be forgotten here."""
    fields = {name.removesuffix("_bytes") for name in RankMemory.model_fields if name.endswith("_bytes")}
    assert fields - {"total"} == set(PARTS)


def test_memory_left_does_not_count_the_margin_as_used() -> None:
    """Free is capacity minus what is needed, which includes what is kept free on purpose."""
    plan = make()
    assert plan.chosen is not None
    found = fullest(plan.chosen.memory, plan.cluster.memory_bytes)
    rank = plan.chosen.memory[found.rank]
    assert found.total_bytes == plan.chosen.peak_memory_bytes
    assert found.free_bytes == plan.cluster.memory_bytes - rank.total_bytes
    text = Page(render_report(plan, standalone=False)).text.replace("\N{NO-BREAK SPACE}", " ")
    assert "beyond the 5 % kept free" in text
    (told,) = [line for line in describe(plan, 0.0) if "more is free" in line]
    (left,) = re.findall(r"Memory left *([0-9.]+) GB", text)
    assert f"; {left} GB (" in told


@pytest.mark.parametrize("options", [{}, {"devices": 1, "model": "llama-3-8b"}], ids=["more", "larger"])
def test_the_figures_of_what_would_fit_add_up(options: dict[str, Any]) -> None:
    """What is needed and what is left are what the device has."""
    plan = answer_once(read_request(NO_FIT | options), library)
    text = Page(render_report(plan, standalone=False)).text
    needs, has, left = (
        Decimal(re.findall(rf"{label} *([0-9.]+)", text)[0])
        for label in ("Needs then", "The device has", "(?:Left then|It lacks)")
    )
    assert needs + (-left if "It lacks" in text else left) == has


@pytest.mark.parametrize(
    "options", [{"devices": 1, "schedules": "chimera"}, {"runs_on": "deepspeed", "schedules": "chimera"}]
)
def test_memory_is_not_blamed_for_what_is_not_legal(options: dict[str, Any]) -> None:
    """Page and terminal name the kind of reason, with one of each and its count."""
    plan = make(**options)
    kinds = {entry.kind for entry in plan.rejected}
    assert plan.chosen is None
    assert kinds
    assert "memory" not in kinds
    page, told = Page(render_report(plan, standalone=False)).text, "\n".join(describe(plan, 0.0))
    for text in (page, told):
        assert "No legal configuration" in text
        assert "Nothing fits" not in text
        assert "closed form" not in text
    assert all(any(entry.reason in told for entry in plan.rejected if entry.kind == kind) for kind in kinds)


def test_the_bar_of_the_iteration_is_whole() -> None:
    """Its parts follow each other and end at 100."""
    plan = make()
    assert plan.chosen is not None
    parts = shares(plan.chosen.predicted.breakdown)
    for one, next_one in pairwise(parts):
        assert one.start + one.width == pytest.approx(next_one.start)
    assert parts[-1].start + parts[-1].width == pytest.approx(100)


def test_the_reason_names_the_runner_up() -> None:
    """With the difference in throughput."""
    plan = make()
    assert plan.chosen is not None
    runner_up = plan.candidates[1]
    faster = plan.chosen.predicted.throughput_samples_per_s / runner_up.predicted.throughput_samples_per_s - 1
    told = why_chosen(plan)
    assert f"{faster * 100:.1f}\N{NO-BREAK SPACE}% faster" in told
    assert f"W={runner_up.width} × D={runner_up.depth}" in told


def test_thousands_of_rejected_are_grouped_and_cut() -> None:
    """100 of each kind are shown, all are counted, and the page stays small."""
    plan = make()
    template = plan.rejected[0]
    many = tuple(
        Rejected(configuration=template.configuration, reason=f"needs {i} GB", kind="memory")
        for i in range(9_000)
    )
    plan = plan.model_copy(update={"rejected": many})
    (group,) = rejected_groups(plan)
    assert (group.total, len(group.shown)) == (9_000, 100)
    page = render_report(plan, standalone=False)
    assert "9,000" in page
    assert len(page) < 500_000


@pytest.mark.parametrize("request_", [BERT, NO_FIT], ids=["chosen", "nothing"])
def test_the_standalone_report_is_one_file(request_: dict[str, Any]) -> None:
    """It loads nothing, allows its own scripts alone, stays under 8 MB, and equal plans give equal bytes."""
    plan = answer_once(read_request(request_), library)
    page = render_report(plan, standalone=True)
    assert Page(page).loads == []
    assert page == render_report(plan, standalone=True)
    assert len(page.encode()) < 8_000_000
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "unsafe" not in policy[1]
    assert "default-src &#39;none&#39;" in policy[1]


@pytest.mark.parametrize("standalone", [True, False])
def test_names_are_text_wherever_they_are_shown(standalone: bool) -> None:
    """A model called like markup is shown as it is called."""
    plan = make()
    plan = plan.model_copy(
        update={
            "model": plan.model.model_copy(update={"name": ATTACK}),
            "cluster": plan.cluster.model_copy(update={"name": ATTACK}),
            "rejected": (plan.rejected[0].model_copy(update={"reason": ATTACK}),),
            "layouts": (
                plan.layouts[0].model_copy(update={"reason": ATTACK, "throughput_samples_per_s": None}),
            ),
        }
    )
    page = render_report(plan, standalone=standalone)
    assert ATTACK not in page
    assert Page(page).text.count(ATTACK) >= 4


@pytest.mark.parametrize(
    "options",
    [
        {"why": "depth=16"},
        {"devices": 33},
        {"devices": 1},
        {"runs_on": "megatron"},
        {"search": "exhaustive", "optimizer_sharding": "replicas"},
        {"model": "gpt2-64", "devices": 2048, "mini_batch_size": 2048},
        {"schedules": "pipedream_2bw"},
    ],
    ids=str,
)
def test_every_kind_of_plan_has_a_report(options: dict[str, Any]) -> None:
    """No section assumes what a plan may lack."""
    text = Page(render_report(make(**options), standalone=False)).text
    assert "Where the numbers come from" in text
