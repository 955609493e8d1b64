"""Rejected ideas, settings left alone, cost, method, validity and limits."""

from reports.candidates import UNTRIED, candidate_rows, secondary_table
from reports.dossier import Dossier
from reports.format import (
    MISSING,
    clean,
    count,
    factor,
    fixed,
    number,
    percent,
    quantity,
    scale_of,
    span,
)
from reports.model import Section, Table
from reports.words import metric
from teardown.records import Pair, Run
from teardown.settings import Limit, WorkloadSettings

METHOD = (
    "The unit of replication is the run, not the request: requests of one run share its fate. "
    "Before and after are run in pairs on one schedule, close together in time, and the order "
    "is alternated so that drift falls on both sides alike.",
    "An effect is the ratio of means over the pairs; its 95 % interval is Student's t on the "
    "logarithms of the pair ratios. A claim needs at least four pairs. An interval that spans 1 is "
    "written as no measurable change. Screening only chooses what is proved; it keeps nothing.",
    "The accuracy gate compares answers with those of the original stack, stored and hashed before "
    "tuning began. Its bands are what the original shows against itself.",
)


def rejected_section(dossier: Dossier) -> Section:
    """Return the ideas that were tried and not kept, with their numbers."""
    rows = [r for r in candidate_rows(dossier) if r.decided in ("rejected", "no_change", "failed")]
    table = Table(
        caption="Tried and not kept",
        columns=["Idea", "Predicted", "Screened", "Proved", "Accuracy gate", "Decision", "Why"],
        rows=[
            [r.title, r.predicted, r.screen, r.proof, r.oracle, r.decision, r.because or MISSING]
            for r in rows
        ],
    )
    lead = [] if rows else ["Nothing was rejected."]
    return Section(
        anchor="rejected",
        title="Ideas that were rejected",
        lead=lead,
        tables=[table] if rows else [],
        folded=[],
    )


def left_alone_section(dossier: Dossier) -> Section | None:
    """Return the settings that were looked at and not changed."""
    if dossier.plan is None:
        return None
    rows = [[a.setting, a.value, a.because] for a in dossier.plan.left_alone]
    table = Table(caption="Left as they were", columns=["Setting", "Value", "Why"], rows=rows)
    return Section(
        anchor="left-alone",
        title="Settings left alone",
        lead=[] if rows else ["No setting was set aside."],
        tables=[table] if rows else [],
        folded=[],
    )


def cost_section(dossier: Dossier) -> Section | None:
    """Return the cost per million output tokens at the measured load; None without a price."""
    prices, hardware = dossier.settings.prices, dossier.settings.hardware
    if prices.gpu_hour_usd is None:
        return None
    devices = 1 if hardware == "auto" else hardware.count
    rows = []
    for name, runs in (("before", dossier.before_runs), ("after", dossier.after_runs)):
        rates = [
            r.summary.plateau.output_tokens_per_s
            for r in runs
            if r.summary is not None and r.summary.plateau.output_tokens_per_s
        ]
        if rates:
            mean = sum(rates) / len(rates)
            usd = prices.gpu_hour_usd * devices / (mean * 3600) * 1e6
            tokens = quantity(mean, "tokens/s")
            rows.append([name, str(len(rates)), tokens, quantity(usd, "usd")])
    if not rows:
        return None
    dated = f", dated {prices.dated}" if prices.dated else ", undated"
    return Section(
        anchor="cost",
        title="What a million output tokens costs",
        lead=[
            f"Price per accelerator hour: {number(prices.gpu_hour_usd)} USD{dated}; accelerators: "
            f"{devices}. The price is an input, not a measurement. Cost is that of the measured "
            "load: a stack that is not full costs more per token than it must."
        ],
        tables=[
            Table(
                caption="Cost at the measured load",
                columns=["Stack", "Runs", "Mean output rate", "Cost per 1M output tokens"],
                rows=rows,
                note="Means of runs, shown for the order of magnitude; what is claimed is proved "
                "by pairs, above.",
            )
        ],
        folded=[],
    )


def method_section(dossier: Dossier) -> Section:
    """Return how it was measured: the loads, the promise, every pair in order."""
    lead = list(METHOD)
    lead.append(f"Promise: {promise_words(dossier)}.")
    loads = Table(
        caption="Workloads",
        columns=["Name", "Kind", "Load", "Caches", "Answer limit", "Seed"],
        rows=[
            [w.name, _kind_words(w), _load_words(w), w.regime, count(w.max_tokens), str(w.seed)]
            for w in dossier.settings.workloads
        ],
    )
    tables = [loads] if loads.rows else []
    tables += [t for t in (pair_table(dossier), secondary_table(dossier)) if t is not None]
    return Section(
        anchor="method", title="How it was measured", lead=lead, tables=tables, folded=[]
    )


def _kind_words(load: WorkloadSettings) -> str:
    return f"{load.kind} loop" if load.kind in ("closed", "open") else load.kind


def _load_words(load: WorkloadSettings) -> str:
    if load.kind == "open" and load.rate_per_s is not None:
        return f"{number(load.rate_per_s)} requests/s, {load.arrivals} arrivals"
    if load.kind == "trace":
        return f"as recorded, {number(load.speed)} times as fast"
    levels = load.rates_per_s or load.concurrencies
    if levels:
        unit = "requests/s" if load.rates_per_s else "at once"
        return f"{', '.join(number(level) for level in levels)} {unit}"
    if load.rate_per_s is not None and load.kind != "closed":
        end = "" if load.rate_to_per_s is None else f" to {number(load.rate_to_per_s)}"
        return f"from {number(load.rate_per_s)}{end} requests/s"
    return f"{count(load.concurrency)} users at once"


def promise_words(dossier: Dossier) -> str:
    """Return the latency promise as a phrase."""
    promises = dossier.settings.promises
    named: tuple[tuple[str, Limit | None], ...] = (
        ("TTFT", promises.ttft_s),
        ("TTFO", promises.ttfo_s),
        ("TPOT", promises.tpot_s),
        ("E2E", promises.e2e_s),
    )
    bounds = [
        f"{name} at most {quantity(limit.seconds, 's')}"
        for name, limit in named
        if limit is not None and limit.seconds is not None
    ]
    if not bounds:
        return "none was given, so every complete answer counts as kept"
    return f"{', '.join(bounds)}, for {percent(promises.attainment)} of requests"


def pair_table(dossier: Dossier) -> Table | None:
    """Return every pair of the proof in the order it was made, those set aside too."""
    proof = dossier.proof
    if proof is None or not proof.pairs:
        return None
    words = metric(dossier.verdict.goal_metric if dossier.verdict else goal_metric(dossier))
    scale = scale_of(words.unit, *(v for p in proof.pairs for v in (p.before, p.after)))

    def row(index: int, pair: Pair) -> list[str]:
        ratio = MISSING
        if pair.before and pair.after is not None:
            ratio = f"{fixed(pair.after / pair.before, 2)}×"
        return [
            str(index),
            f"{pair.first} first",
            pair.run_before,
            quantity(pair.before, words.unit, scale),
            pair.run_after,
            quantity(pair.after, words.unit, scale),
            ratio,
            percent(pair.equal_work),
            pair.excluded or "counts",
        ]

    floor = dossier.verdict.noise_floor if dossier.verdict else None
    return Table(
        caption=f"Pairs of {proof.trial}: {words.label}",
        columns=[
            "#",
            "Order",
            "Run before",
            "Before",
            "Run after",
            "After",
            "After / before",
            "Unequal work",
            "Counts",
        ],
        rows=[row(i, p) for i, p in enumerate(proof.pairs, 1)],
        note=f"Effect {factor(proof.effect)}; noise floor {factor(floor)}." if proof.effect else "",
        marks=frozenset(i for i, p in enumerate(proof.pairs) if p.excluded),
    )


def goal_metric(dossier: Dossier) -> str:
    """Return the metric that the engagement is about."""
    return dossier.plan.goal_metric if dossier.plan else dossier.settings.goal.metric


def limits_section(dossier: Dossier) -> Section:
    """Return what was not tested and what would prove the report wrong."""
    tested = {run.workload.partition("@")[0] for run in dossier.runs}  # a level is name@level
    tested |= {run.workload for run in dossier.runs}
    lead = [
        f"Workload {w.name} was not run."
        for w in dossier.settings.workloads
        if w.name not in tested
    ]
    lead += [f"Run {run} was not finished." for run in dossier.unfinished]
    lead += [
        f"Not tried: {row.title} (predicted {row.predicted})."
        for row in candidate_rows(dossier)
        if row.screen == row.proof == UNTRIED
    ]
    if dossier.attribution is not None:
        lead += [f"Would disprove the diagnosis: {t}" for t in dossier.attribution.would_disprove]
        if dossier.attribution.overshoot > 0:
            lead.append(
                f"The terms of the model overshot by {percent(dossier.attribution.overshoot)} "
                "and were scaled down."
            )
        lead += dossier.attribution.notes
    lead += dossier.plan.notes if dossier.plan else []
    lead += dossier.verdict.notes if dossier.verdict else []
    lead += [f"{run.run}: {note}" for run in dossier.runs for note in run.notes]
    return Section(
        anchor="limits",
        title="What we did not test, and what would prove us wrong",
        lead=[clean(t) for t in dict.fromkeys(lead)] or ["Nothing is known to be left out."],
        tables=[],
        folded=[],
    )


def when(run: Run) -> str:
    """Return when a run was made, first to last segment."""
    if not run.segments:
        return MISSING
    return span(run.segments[0].started_unix_s, run.segments[-1].ended_unix_s)
