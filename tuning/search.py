"""From a plan to a verdict: reference, screening, bundle, proof; the original always comes back."""

from collections.abc import Sequence
from dataclasses import replace

from teardown.measure import workload_named
from teardown.records import (
    Candidate,
    Estimate,
    Headline,
    Plan,
    Stack,
    Trial,
    VerdictRecord,
)
from teardown.settings import Settings
from teardown.text import quantity
from teardown.ui import Console
from tuning.gate import Gate
from tuning.goal import metric_named
from tuning.plan import merge, within_budget
from tuning.proof import headlines, prove
from tuning.screen import Screening, judge_screened, noise_floor
from tuning.trial import Bench, OnTrial, with_changes


def search(bench: Bench, plan: Plan, gate: Gate, console: Console) -> VerdictRecord:
    """Return the verdict on `plan`; every trial is in the folder when this returns."""
    metric = plan.goal_metric
    metric_named(metric)
    original = bench.target.original()
    gate.prepare(bench)
    candidates = within_budget(plan.candidates, bench.settings.budgets.trials)
    screening = Screening(bench, gate, metric)
    screened = screening.screen(candidates, _announce(console))
    floor = noise_floor(screening.controls, metric)
    screened = [bench.save(t) for t in judge_screened(screened, floor)]
    for trial in screened:
        console.say(f"{trial.candidates[0]}: {trial.decision} — {trial.because}")
    rejected = {t.candidates[0]: t.because for t in screened if t.decision != "kept"}
    kept = compatible([t for t in screened if t.decision == "kept"])
    proof: Trial | None = None
    while kept:
        names = [t.candidates[0] for t in kept]
        changes = merge([c for c in candidates if c.candidate in names])
        console.step(f"Proof: {' + '.join(names)} in {bench.settings.budgets.pairs} fresh pairs")
        proof = prove(
            bench,
            gate,
            trial_id=f"proof-{'+'.join(names)}",
            candidates=names,
            changes=changes,
            num_pairs=bench.settings.budgets.pairs,
            metric=metric,
        )
        console.say(f"proof: {proof.decision} — {proof.because}")
        refused = proof.oracle is not None and not proof.oracle.passed
        weaker = _without_riskiest(kept, candidates) if refused else []
        if not weaker:
            break
        rejected |= {
            t.candidates[0]: f"left out of the bundle, which {proof.because}"
            for t in kept
            if t not in weaker
        }
        kept = weaker
    return _verdict(bench, original, metric, plan, kept, rejected, proof, floor, gate)


def _announce(console: Console) -> OnTrial:
    def announce(trial: Trial) -> Trial:
        effect = f"{trial.effect.value:.2f}×" if trial.effect else "no effect to judge"
        oracle = (
            ""
            if trial.oracle is None
            else (", oracle passed" if trial.oracle.passed else ", ORACLE REFUSED")
        )
        console.say(f"screened {trial.candidates[0]}: {effect}{oracle}")
        return trial

    return announce


def compatible(trials: Sequence[Trial]) -> list[Trial]:
    """Return the kept trials, best measured first.

    Left out: one that sets an option otherwise than a better one, and one that a better one holds.
    """
    chosen: list[Trial] = []
    taken: dict[str, object] = {}
    ranked = sorted(trials, key=lambda t: t.effect.value if t.effect else 0.0, reverse=True)
    for trial in ranked:
        fits = all(taken.get(name, value) == value for name, value in trial.changes.items())
        if fits and not trial.changes.items() <= taken.items():
            chosen.append(trial)
            taken |= trial.changes
    return chosen


def _without_riskiest(kept: list[Trial], candidates: Sequence[Candidate]) -> list[Trial]:
    """Return the bundle without the members that may change answers; empty when none may."""
    changing = {c.candidate for c in candidates if c.changes_answers}
    rest = [t for t in kept if t.candidates[0] not in changing]
    return rest if rest and len(rest) < len(kept) else []


def _verdict(
    bench: Bench,
    original: Stack,
    metric: str,
    plan: Plan,
    kept: Sequence[Trial],
    rejected: dict[str, str],
    proof: Trial | None,
    floor: Estimate | None,
    gate: Gate,
) -> VerdictRecord:
    improved = proof is not None and proof.decision == "kept"
    if proof is not None and not improved:
        rejected = rejected | {t.candidates[0]: proof.because for t in kept}
    effect = proof.effect if proof else None
    accepted = proof.stack if proof is not None and improved else None
    if accepted is not None:
        accepted = replace(
            accepted, options=with_changes(bench.original, proof.changes if proof else {})
        )
    is_short = proof is not None and proof.effect is not None and not proof.effect.has_interval
    unproven = proof.because if proof is not None and is_short else None
    numbers = headlines(bench, proof, metric) if proof is not None and improved else []
    return VerdictRecord(
        outcome="improved" if improved else "no_change_helps",
        sentence=sentence(bench.settings, metric, numbers, len(rejected), unproven),
        goal_metric=metric,
        at_least=plan.at_least,
        goal_reached=bool(improved and effect and effect.low and effect.low >= plan.at_least)
        if improved
        else None,
        effect=effect,
        noise_floor=floor,
        headlines=numbers,
        kept=[t.candidates[0] for t in kept] if improved else [],
        rejected=rejected,
        proof_trial=proof.trial if proof else None,
        original=original,
        accepted=accepted,
        launch=None,
        oracle_sha256=gate.sha256,
    )


def sentence(
    settings: Settings,
    metric: str,
    proof: Sequence[Headline],
    rejected: int,
    unproven: str | None = None,
) -> str:
    """Return the one sentence that opens the report, from the numbers alone.

    proof: the headlines of a proof that held, goal metric first; empty where no change helps.
    unproven: why a proof could not be finished; that is not the same as no effect.
    """
    label = metric_named(metric).label
    load = workload_named(settings, None)[0].name
    goal = proof[0] if proof else None
    if unproven is not None:
        return f"No change is proven under “{load}”, though one looked better: {unproven}."
    if goal is None or goal.before is None or goal.after is None or goal.change is None:
        return (
            f"No change helps: {rejected} candidate{'s' if rejected != 1 else ''} "
            f"did not measurably improve the {label} under “{load}”; the stack stays as it is."
        )
    before, after = (quantity(e.value, goal.unit) for e in (goal.before, goal.after))
    moved = "fell" if goal.after.value < goal.before.value else "rose"
    return (
        f"Under “{load}” the {label} {moved} from {before} to {after}: "
        f"{goal.change.value:.1f}× better (95 % interval "
        f"{goal.change.low:.1f} to {goal.change.high:.1f}, {goal.change.n} interleaved pairs), "
        "and the answers pass the accuracy oracle."
    )
