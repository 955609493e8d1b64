"""The first screen: one sentence, whether it may be believed, three numbers, what limits, scope."""

from dataclasses import replace

from reports.appendix import goal_metric
from reports.bottleneck import bottleneck
from reports.dossier import Dossier
from reports.format import (
    MISSING,
    bounds,
    capitalised,
    change,
    count,
    factor,
    inverted,
    measured,
    number,
    percent,
    plural,
    point,
    quantity,
    scale_of,
    span,
)
from reports.model import Brief, FirstScreen, Item, Light, Tile
from reports.validity import validity_bar
from reports.words import OUTCOME_WORDS, metric
from teardown.records import Estimate, Headline, VerdictRecord
from teardown.stats import mean_of_runs

NUM_TILES = 3
NUM_ITEMS = 2
NUM_WORKLOADS = 3


def first_screen(dossier: Dossier) -> FirstScreen:
    """Return the first screen; the sentence is withheld when a run is invalid or simulated."""
    validity = validity_bar(dossier)
    withheld = validity.light in ("invalid", "simulated")
    verdict = dossier.verdict
    if withheld:
        outcome, sentence = "Result withheld", _withheld_sentence(validity.light)
    elif verdict is not None:
        outcome, sentence = outcome_words(verdict), verdict.sentence
    else:
        outcome, sentence = "No verdict yet", _sentence_without_verdict(dossier)
    return FirstScreen(
        outcome=outcome,
        sentence=sentence,
        withheld=withheld,
        validity=validity,
        tiles=shown_tiles(dossier, validity.light),
        bottleneck=bottleneck(dossier.attribution),
        briefs=briefs(dossier),
        scope=scope(dossier),
    )


def outcome_words(verdict: VerdictRecord) -> str:
    """Return the outcome, and whether the goal that was set at the start is reached."""
    goal = f"goal, {metric(verdict.goal_metric).label} at least {number(verdict.at_least)}× better"
    reached = {True: "reached", False: "not reached", None: "not judged"}[verdict.goal_reached]
    if verdict.outcome == "no_change_helps":
        reached = "not reached"
    return f"{OUTCOME_WORDS[verdict.outcome]} · {goal}: {reached}"


def _withheld_sentence(light: Light) -> str:
    if light == "simulated":
        return "This report shows simulated runs: it proves nothing about a real stack."
    return "The result is withheld: a run that it rests on is invalid."


def _sentence_without_verdict(dossier: Dossier) -> str:
    runs = len(dossier.runs)
    text = f"{plural(runs, 'run')} measured"
    if dossier.attribution is not None:
        text += ", the time attributed"
    if dossier.plan is not None:
        text += f", {plural(len(dossier.plan.candidates), 'change')} planned"
    return f"{text}; no change has been proved yet."


def shown_tiles(dossier: Dossier, light: Light) -> list[Tile]:
    """Return the tiles; none for an invalid result, and no good or bad news from a simulation."""
    if light == "invalid":
        return []
    if light == "simulated":
        return [replace(t, tone="unknown", note=f"simulated; {t.note}") for t in tiles(dossier)]
    return tiles(dossier)


def tiles(dossier: Dossier) -> list[Tile]:
    """Return the verdict's headlines; without a verdict, what the diagnosed run measured."""
    if dossier.verdict is not None and dossier.verdict.headlines:
        return [_tile(h) for h in dossier.verdict.headlines[:NUM_TILES]]
    proved = _proved_headline(dossier)
    as_found = as_found_tiles(dossier)
    return [_tile(proved), *as_found[1:]] if proved is not None else as_found


def _proved_headline(dossier: Dossier) -> Headline | None:
    """Return the goal metric over the pairs of a proof whose verdict has no headlines."""
    proof = dossier.proof
    if proof is None or proof.effect is None:
        return None
    words = metric(goal_metric(dossier))
    return Headline(
        metric=goal_metric(dossier),
        label=words.label,
        unit=words.unit,
        better=words.better,
        before=mean_of_runs([p.before for p in dossier.proof_pairs if p.before is not None]),
        after=mean_of_runs([p.after for p in dossier.proof_pairs if p.after is not None]),
        change=proof.effect,
    )


def as_found_tiles(dossier: Dossier) -> list[Tile]:
    """Return three numbers of the stack as it was found, from the diagnosed run."""
    diagnosed = dossier.attribution.run if dossier.attribution else ""
    run = dossier.run_by_id.get(diagnosed, dossier.runs[-1])
    if run.summary is None:
        return []
    plateau = run.summary.plateau
    numbers = (
        ("Median time to first token", measured(plateau.ttft_s.p50, "s"), plateau.ttft_s.n),
        (
            "Output tokens per second",
            quantity(plateau.output_tokens_per_s, "tokens/s"),
            plateau.num_requests,
        ),
        (
            "Requests within the promise",
            percent(plateau.attainment.value) if plateau.attainment else MISSING,
            plateau.num_requests,
        ),
    )
    return [
        Tile(
            label=label,
            before=value,
            after="",
            change="",
            tone="unknown",
            note=f"one run, {plural(n, 'request')}, as found",
        )
        for label, value, n in numbers
    ]


def _tile(headline: Headline) -> Tile:
    before, after = headline.before, headline.after
    scale = scale_of(headline.unit, *(e.value for e in (before, after) if e is not None))
    ratio = headline.change  # an improvement: above 1 is better
    if ratio is not None and headline.better == "lower":
        ratio = inverted(ratio)
    found = change(ratio, headline.better)
    basis = ratio or after or before
    return Tile(
        label=capitalised(headline.label),
        before=point(before, scale),
        after=point(after, scale) if after else "",
        change=found.text if headline.change else "",
        tone=found.tone,
        note=_tile_note(headline, basis, scale.factor, found.interval),
    )


def _tile_note(headline: Headline, basis: Estimate | None, scale: float, interval: str) -> str:
    if basis is None:
        return ""
    if headline.change is not None:
        what = (
            f"95 % interval {interval}" if basis.low is not None else f"{interval} {basis.method}"
        )
        return f"{what}, n = {plural(basis.n, 'pair')}"
    return f"before {bounds(basis, scale)} n = {count(basis.n)}; after: not measured"


def briefs(dossier: Dossier) -> list[Brief]:
    """Return the short lists beside the bottleneck: left alone and rejected, or proposals."""
    plan, verdict = dossier.plan, dossier.verdict
    found: list[Brief] = []
    if verdict is not None and verdict.outcome == "proposed_only" and plan is not None:
        items = [
            Item(name=c.title, text=f"{factor(c.predicted)} expected") for c in plan.candidates
        ]
        found.append(_brief("Proposed, with expected gain", items, "findings", "Nothing."))
    left = [Item(name=a.setting, text=a.because) for a in plan.left_alone] if plan else []
    empty = "Nothing was set aside." if plan else "There is no plan yet."
    found.append(_brief("Left alone", left, "left-alone", empty))
    if len(found) < NUM_ITEMS:
        items = rejected(dossier)
        empty = "Nothing was rejected." if dossier.trials else "Nothing has been tried yet."
        found.append(_brief("Tried and rejected", items, "rejected", empty))
    return found


def _brief(title: str, items: list[Item], anchor: str, empty: str) -> Brief:
    return Brief(
        title=title,
        items=items[:NUM_ITEMS],
        more=max(len(items) - NUM_ITEMS, 0),
        anchor=anchor,
        empty=empty,
    )


def rejected(dossier: Dossier) -> list[Item]:
    """Return what was tried and not kept, with the reason, each candidate once."""
    titles = {c.candidate: c.title for c in dossier.plan.candidates} if dossier.plan else {}
    reasons: dict[str, str] = {}
    for trial in dossier.trials:
        if len(trial.candidates) == 1 and trial.decision in ("rejected", "no_change", "failed"):
            reasons[trial.candidates[0]] = trial.because
    if dossier.verdict is not None:
        reasons.update(dossier.verdict.rejected)
        for kept in dossier.verdict.kept:
            reasons.pop(kept, None)
    return [Item(name=titles.get(c, c), text=why) for c, why in reasons.items()]


def scope(dossier: Dossier) -> list[Item]:
    """Return when, on what and under which load it was measured."""
    segments = [s for run in dossier.runs for s in run.segments]
    when = MISSING
    if segments:
        when = span(min(s.started_unix_s for s in segments), max(s.ended_unix_s for s in segments))
    engines = dict.fromkeys(
        f"{r.target.engine} {r.target.version or ''}".strip() for r in dossier.runs
    )
    models = dict.fromkeys(r.target.served_model for r in dossier.runs)
    loads = list(dict.fromkeys(r.workload for r in dossier.runs))
    workloads = ", ".join(loads[:NUM_WORKLOADS])
    if len(loads) > NUM_WORKLOADS:
        workloads += f" and {len(loads) - NUM_WORKLOADS} more"
    items = [
        Item(name="Measured", text=f"{when}, {plural(len(dossier.runs), 'run')}"),
        Item(name="Engine", text=", ".join(engines)),
        Item(name="Model", text=", ".join(models)),
        Item(name="Workload", text=workloads),
    ]
    hardware = dossier.settings.hardware
    if hardware != "auto" and hardware.gpu:
        items.insert(3, Item(name="Hardware", text=f"{hardware.count} × {hardware.gpu}"))
    return items
