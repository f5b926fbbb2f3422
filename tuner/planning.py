"""What is the answer to a request? Gathers the documents, searches, and writes the plan."""

from collections.abc import Sequence

from profiles.calibration import Calibration
from profiles.timings import Profile
from tuner.answer import Bars, Narrator, layout_map
from tuner.assumed_hardware import assumed
from tuner.choice import Found
from tuner.compressed_plans import sent_bytes, with_compression
from tuner.compression import one_compression
from tuner.corrected_ranking import correct_ranking
from tuner.error_bars import ErrorBars, find_set
from tuner.evaluation import Evaluator
from tuner.exports.frameworks import FRAMEWORKS
from tuner.families.left_out import left_out
from tuner.inputs import Library, PlanInputs, taken_elsewhere
from tuner.network import overlap_notes
from tuner.plan import Candidate, Chosen, ClusterNote, ModelNote, Plan, ProvenanceNote
from tuner.plausibility import calibration_doubts, link_doubts
from tuner.posing import pose
from tuner.ranking import MOST_OVER, Ranked, Ranking
from tuner.remedy import smallest_change
from tuner.request import InlineModel, PlanRequest
from tuner.search import Search
from tuner.trials import Trial, measured
from tuner.why import Explanation

_OPERATIONS_FOR_REGRET = 8_192
"""How much of the exhaustive search is simulated, to say what greedy loses."""


def answer(
    request: PlanRequest,
    library: Library,
    *,
    profile: Profile | None = None,
    calibration: Calibration | None = None,
    trials: Sequence[Trial] = (),
) -> Plan:
    """The plan for `request`; `library` resolves names, `profile` is the profile that the request refers to.

    With a `calibration` times are as it has them, with error bars, and the plan names it by its content.
    `trials` of configurations, predicted by this same model, correct it once more, and the fastest that one
    of them measured is chosen.

    A request that allows compressions of gradients is answered without and with each of them, and the fastest
    is the plan; trials correct the one compression that the request names, with which they ran.

    The same request gives the same plan, byte for byte. Raises TunerError or DocumentError for what cannot be
    asked; that nothing fits is an answer, with `chosen` None and the smallest change that would fit.
    """

    def plan(asked: PlanRequest) -> Plan:
        return _answer(asked, library, profile=profile, calibration=calibration, trials=trials)

    return plan(request) if trials else with_compression(request, plan)


def _answer(
    request: PlanRequest,
    library: Library,
    *,
    profile: Profile | None,
    calibration: Calibration | None,
    trials: Sequence[Trial],
) -> Plan:
    """The plan with the one compression that the request names."""
    posed = pose(request, library, profile=profile, calibration=calibration)
    constraints, inputs, calibrated, search = posed.constraints, posed.inputs, posed.calibrated, posed.search
    evaluator = search.evaluator
    ranking = Ranking(evaluator)
    found = search.exhaustive() if request.search == "exhaustive" else search.greedy()
    learnt = correct_ranking(ranking, found.fitting, trials) if trials and found.fitting else None
    fitting = learnt.ranked if learnt else ranking.rank(found.fitting)
    best = () if learnt or not fitting else _best(search, ranking, found, chosen=fitting[0])
    bars = ErrorBars(evaluator, calibrated, calibration.level) if calibration and calibrated else None
    narrator = _narrator(inputs, learnt or bars)
    chosen = narrator.chosen(fitting[0]) if fitting else None
    lost = _lost(fitting[:1], best)
    return Plan(
        request=_echo(inputs.request),
        model=_model_note(inputs),
        cluster=_cluster_note(inputs),
        chosen=chosen,
        candidates=tuple(narrator.candidate(ranked) for ranked in fitting[: request.top]),
        candidates_considered=len(fitting),
        rejected=(
            *(refusal.document() for refusal in found.refused),
            *(learnt.refused if learnt else ()),
        ),
        layouts=layout_map(search.layouts, fitting, found.refused),
        smallest_change=None if fitting or learnt else smallest_change(evaluator.inputs, search),
        greedy_regret=lost,
        greedy_best=narrator.candidate(best[0]) if lost else None,
        greedy_choice=None if learnt else _greedy_choice(search, ranking, narrator),
        target_cost=_target_cost(search, ranking, fitting),
        best_by_framework=_elsewhere(chosen, fitting, ranking=ranking, narrator=narrator),
        idle_devices=request.devices - (chosen.width * chosen.depth if chosen else 0),
        why=Explanation(constraints, search.exhaustive(), ranking, narrator).of(chosen)
        if constraints
        else None,
        provenance=_provenance(
            inputs, evaluator, fitting[:1], profile=profile, calibration=calibration, trials=trials
        ),
        sent_gradient_bytes=sent_bytes(evaluator, fitting[0].choice) if fitting else 0,
    )


def _narrator(inputs: PlanInputs, bars: Bars | None) -> Narrator:
    return Narrator(
        bars=bars,
        sequence_length=inputs.description.sequence_length,
        sample_flops=inputs.description.sample_flops,
        peak_flops=inputs.accelerator.peak_flops[inputs.description.precision],
        compression=str(one_compression(inputs.request.compression)),
    )


def _best(search: Search, ranking: Ranking, found: Found, *, chosen: Ranked) -> tuple[Ranked, ...]:
    """The best of all, whatever was searched; what is far behind the chosen one would not be simulated."""
    if search.request.search != "exhaustive":
        found = search.within(MOST_OVER * chosen.iteration_s)
    return ranking.rank(found.fitting, operations=_OPERATIONS_FOR_REGRET)[:1]


def _lost(chosen: tuple[Ranked, ...], best: tuple[Ranked, ...]) -> float | None:
    """Throughput of the best over that of the chosen one, minus 1."""
    if not chosen or not best:
        return None
    return max(0.0, chosen[0].iteration_s / best[0].iteration_s - 1)


def _greedy_choice(search: Search, ranking: Ranking, narrator: Narrator) -> Candidate | None:
    """What the greedy search chooses, where the exhaustive one was asked for."""
    if search.request.search != "exhaustive":
        return None
    first = ranking.rank(search.greedy().fitting)[:1]
    return narrator.candidate(first[0]) if first else None


def _target_cost(search: Search, ranking: Ranking, fitting: tuple[Ranked, ...]) -> float | None:
    """What being bound to one framework costs, under the same search."""
    if search.request.runs_on in {"any", "own"}:
        return None
    anywhere = search.exhaustive if search.request.search == "exhaustive" else search.greedy
    return _lost(fitting[:1], ranking.rank(anywhere(any_target=True).fitting)[:1])


def _elsewhere(
    chosen: Chosen | None, fitting: tuple[Ranked, ...], *, ranking: Ranking, narrator: Narrator
) -> dict[str, Candidate]:
    """What each framework that cannot run the choice would be given; nothing where it can run nothing."""
    found = {}
    for name, framework in FRAMEWORKS.items():
        if chosen is None or framework.runs(chosen):
            continue
        first = next((ranked for ranked in fitting if framework.runs(ranked.choice.configuration)), None)
        if first is not None:
            found[name] = narrator.candidate(ranking.settle(first))
    return found


def _echo(request: PlanRequest) -> dict[str, object]:
    """The request as understood; what its inline documents hold stands in the hashes."""
    return request.model_dump(mode="json", exclude={"model", "cluster"}) | {
        "model": request.model if isinstance(request.model, str) else request.model.name or "config",
        "cluster": request.cluster
        if isinstance(request.cluster, str) or request.cluster is None
        else "document",
    }


def _model_note(inputs: PlanInputs) -> ModelNote:
    description = inputs.description
    return ModelNote(
        name=description.name,
        family=description.family,
        parameters=description.parameters,
        blocks=len(description.blocks),
        sequence_length=description.sequence_length,
        precision=description.precision,
        attention=description.attention,
        sample_flops=description.sample_flops,
    )


def _cluster_note(inputs: PlanInputs) -> ClusterNote:
    accelerator = inputs.accelerator
    return ClusterNote(
        name=inputs.cluster.name,
        accelerator=accelerator.name,
        devices=inputs.request.devices,
        devices_per_node=inputs.cluster.node.devices,
        memory_bytes=accelerator.memory_bytes,
        peak_flops=accelerator.peak_flops[inputs.description.precision],
    )


def _provenance(
    inputs: PlanInputs,
    evaluator: Evaluator,
    chosen: Sequence[Ranked],
    *,
    profile: Profile | None,
    calibration: Calibration | None,
    trials: Sequence[Trial],
) -> ProvenanceNote:
    sizes = [ranked.choice.configuration.micro_batch_size for ranked in chosen]
    sources = evaluator.layers.sources(sizes)
    notes = [*sources.notes, *assumed(inputs.request)]
    notes += [*link_doubts(inputs.cluster), *overlap_notes(inputs.cluster)]
    if isinstance(inputs.request.model, InlineModel):
        notes += left_out(inputs.request.model.config or {}, inputs.description)
    if inputs.cluster.node.accelerator != inputs.accelerator.name:
        notes.append(
            f"links and software of {inputs.cluster.name} were given for {inputs.cluster.node.accelerator}, "
            f"not {inputs.accelerator.name}"
        )
    notes += taken_elsewhere(profile, inputs.accelerator)
    if calibration is not None:
        notes += calibration_doubts(find_set(calibration, inputs.cluster, inputs.description.name))
    if measured(trials):
        notes.append(f"times are corrected by {len(measured(trials))} measured trials")
    return ProvenanceNote(
        timings=sources.provenance,
        timings_source=sources.text,
        description=inputs.description.source,
        links=inputs.cluster.link.provenance,
        cluster=inputs.cluster.link.source,
        software=evaluator.inputs.cluster.software.provenance,
        hashes={
            "model": inputs.description.fingerprint(),
            "timings": evaluator.layers.fingerprint(),
            "cluster": inputs.cluster.fingerprint(),
            "accelerator": inputs.accelerator.fingerprint(),
        }
        | ({} if profile is None else {"profile": profile.fingerprint()})
        | ({} if calibration is None else {"calibration": calibration.fingerprint()}),
        notes=tuple(notes),
    )
