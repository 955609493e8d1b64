"""Candidates: predicted beside measured, one row each, and the kept ones in full."""

from typing import Literal

from reports.dossier import Dossier
from reports.format import MISSING, factor, number
from reports.model import CandidateRow, Finding, Item, Table
from reports.words import DECISION_WORDS, cause, metric
from teardown.records import Candidate, Estimate, Options, OptionValue, OracleResult, Trial

Decided = Literal["kept", "rejected", "no_change", "failed", "pending", "untried"]
ORDER: tuple[Decided, ...] = ("kept", "pending", "no_change", "rejected", "failed", "untried")
NOT_SET = "not set"
UNTRIED = "not tried"


def trial_of(dossier: Dossier, candidate: str, kind: str) -> Trial | None:
    """Return the last trial of this kind that tried this candidate alone."""
    found = [t for t in dossier.trials if t.kind == kind and t.candidates == [candidate]]
    return found[-1] if found else None


def decided(dossier: Dossier, candidate: str) -> Decided:
    """Return what became of a candidate; the verdict has the last word."""
    verdict = dossier.verdict
    if verdict is not None and candidate in verdict.kept:
        return "kept"
    tried = [trial_of(dossier, candidate, kind) for kind in ("proof", "screen")]
    decisions = [t.decision for t in tried if t is not None]
    if verdict is not None and candidate in verdict.rejected:
        return decisions[0] if decisions and decisions[0] in ("no_change", "failed") else "rejected"
    return decisions[0] if decisions else "untried"


def effect(trial: Trial | None) -> Estimate | None:
    """Return the effect of a trial that may be missing."""
    return trial.effect if trial is not None else None


def oracle_words(result: OracleResult | None) -> str:
    """Return whether the answers stayed the same, with the number of checks that hold."""
    if result is None:
        return MISSING
    holding = sum(check.holds for check in result.checks)
    word = "passed" if result.passed else "FAILED"
    return f"{word} ({holding} of {len(result.checks)})"


def candidate_rows(dossier: Dossier) -> list[CandidateRow]:
    """Return every planned candidate and every trial of several, best first."""
    planned = dossier.plan.candidates if dossier.plan else []
    rows = [_planned_row(dossier, c) for c in planned]
    known = {c.candidate for c in planned}
    rows += [
        _trial_row(t)
        for t in dossier.trials
        if len(t.candidates) != 1 or t.candidates[0] not in known
    ]
    return sorted(rows, key=lambda row: ORDER.index(row.decided))


def _planned_row(dossier: Dossier, candidate: Candidate) -> CandidateRow:
    screen = trial_of(dossier, candidate.candidate, "screen")
    proof = trial_of(dossier, candidate.candidate, "proof")
    last = proof or screen
    state = decided(dossier, candidate.candidate)
    because = last.because if last else ""
    if dossier.verdict is not None:
        because = dossier.verdict.rejected.get(candidate.candidate, because)
    return CandidateRow(
        candidate=candidate.candidate,
        title=candidate.title,
        lever=candidate.lever.replace("_", " "),
        predicted=factor(candidate.predicted),
        screen=factor(effect(screen)) if screen else UNTRIED,
        proof=factor(effect(proof)) if proof else UNTRIED,
        oracle=oracle_words(last.oracle if last else None),
        decision=DECISION_WORDS.get(state, UNTRIED),
        decided=state,
        risk=candidate.risk,
        because=because,
    )


def _trial_row(trial: Trial) -> CandidateRow:
    together = len(trial.candidates) > 1
    value = factor(trial.effect)
    return CandidateRow(
        candidate=trial.trial,
        title=f"together: {', '.join(trial.candidates)}" if together else trial.trial,
        lever="all" if together else MISSING,
        predicted=MISSING,
        screen=value if trial.kind == "screen" else UNTRIED,
        proof=value if trial.kind == "proof" else UNTRIED,
        oracle=oracle_words(trial.oracle),
        decision=DECISION_WORDS[trial.decision],
        decided=trial.decision,
        risk=MISSING,
        because=trial.because,
    )


def option_text(value: OptionValue) -> str:
    """Return an option's value as its engine writes it; None is an option that is not set."""
    if value is None:
        return NOT_SET
    return str(value).lower() if isinstance(value, bool) else str(value)


def option_diff(original: Options, effective: Options, changes: Options) -> list[list[str]]:
    """Return option, old value, new value; an old value nobody asked for is the engine's own."""
    rows = []
    for name, new in changes.items():
        if name in original:
            old = option_text(original[name])
        elif name in effective:
            old = f"{option_text(effective[name])} (by default)"
        else:
            old = NOT_SET
        rows.append([name, old, "taken away" if new is None else option_text(new)])
    return rows


def findings(dossier: Dossier) -> list[Finding]:
    """Return the kept changes in full; the proposals where nothing could be tried."""
    if dossier.plan is None:
        return []
    verdict = dossier.verdict
    if verdict is not None and verdict.outcome != "proposed_only":
        chosen = [c for c in dossier.plan.candidates if c.candidate in verdict.kept]
    else:
        chosen = [
            c
            for c in dossier.plan.candidates
            if decided(dossier, c.candidate) in ("kept", "pending", "untried")
        ]
    return [_finding(dossier, c) for c in chosen]


def _finding(dossier: Dossier, candidate: Candidate) -> Finding:
    verdict = dossier.verdict
    stack = verdict.original if verdict is not None else dossier.runs[0].target
    screen = trial_of(dossier, candidate.candidate, "screen")
    proof = trial_of(dossier, candidate.candidate, "proof")
    bundle = dossier.proof
    shared = bundle is not None and candidate.candidate in bundle.candidates
    judged = proof or (bundle if shared else None) or screen
    facts = [
        Item(name="Why", text=candidate.reason),
        Item(name="Predicted", text=factor(candidate.predicted)),
        Item(name="Measured", text=_measured(screen, proof, bundle if shared else None)),
    ]
    if candidate.cause:
        facts.insert(1, Item(name="Cause", text=cause(candidate.cause)))
    answers = candidate.changes_answers or "only the order of arithmetic changes"
    facts += [
        Item(name="Answers", text=answers),
        Item(name="Risk", text=candidate.risk),
        Item(name="Watch", text=candidate.watch),
        Item(name="Undo", text=candidate.undo),
    ]
    state = decided(dossier, candidate.candidate)
    return Finding(
        candidate=candidate.candidate,
        title=candidate.title,
        decision=DECISION_WORDS.get(state, "proposed"),
        diff=option_diff(stack.options, stack.effective, candidate.changes),
        facts=facts,
        oracle=oracle_table(judged.oracle) if judged else None,
    )


def _measured(screen: Trial | None, proof: Trial | None, bundle: Trial | None) -> str:
    """Return every measurement of one change, the strictest first."""
    parts = []
    for trial, words in ((proof, "in its own proof"), (screen, "when screened")):
        if trial is not None and trial.effect is not None:
            parts.append(f"{factor(trial.effect)} {words}, n = {trial.effect.n}")
    if bundle is not None and bundle is not proof and bundle.effect is not None:
        parts.insert(0, f"{factor(bundle.effect)} together with the others, n = {bundle.effect.n}")
    return "; ".join(parts) or "not measured"


def oracle_table(result: OracleResult | None) -> Table | None:
    """Return the accuracy checks of one stack."""
    if result is None:
        return None
    return Table(
        caption=f"Accuracy gate {'passed' if result.passed else 'FAILED'}: {result.num_prompts} "
        f"prompts, {result.num_tokens} tokens",
        columns=["Check", "Value", "Band", "Holds", "What it says"],
        rows=[
            [
                check.name.replace("_", " "),
                number(check.value),
                number(check.band),
                "yes" if check.holds else "NO",
                check.says,
            ]
            for check in result.checks
        ],
    )


def secondary_table(dossier: Dossier) -> Table | None:
    """Return what the proof says of the other metrics, above 1 being better."""
    proof = dossier.proof
    if proof is None or not proof.secondary:
        return None
    return Table(
        caption="What the proof did to the other metrics (above 1 is better)",
        columns=["Metric", "Effect", "Pairs", "Measurable"],
        rows=[
            [metric(name).label, factor(e), str(e.n), "yes" if e.excludes_one else "no"]
            for name, e in proof.secondary.items()
        ],
    )
