"""The candidate changes for one diagnosed stack, best predicted first."""

import itertools
import re
from collections.abc import Iterable, Sequence

from teardown.errors import UsageError
from teardown.records import Candidate, LeftAlone, Options, Plan
from tuning.context import PlanContext
from tuning.modules import MODULES
from tuning.oracle.forbidden import forbidden
from tuning.prediction import both

# Two changes are tried together only where each promises at least this by itself.
WORTH_COMBINING = 1.05
# Combinations multiply; the trials pay for each. The bundle of what was kept is proven anyway.
MAX_COMBINATIONS = 2
RISKS = ("low", "medium", "high")
SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def make_plan(context: PlanContext) -> Plan:
    """Return what to try and what to leave, from every registered lever.

    Dropped: changes that change nothing, that repeat another candidate's, or that are forbidden.
    """
    levers = [lever() for lever in MODULES.values()]
    notes = _notes(context)
    found: list[Candidate] = []
    for candidate in itertools.chain.from_iterable(x.candidates(context) for x in levers):
        wrong = forbidden(candidate.changes, context.stack.options, context.max_context_tokens)
        if wrong:
            notes.append(f"{candidate.candidate} is not tried: {'; '.join(wrong)}")
        else:
            found.append(candidate)
    found = _distinct(context, [*found, *_combinations(found)])
    if not found:
        notes.append(f"no lever knows an option of engine {context.stack.engine!r} to change")
    return Plan(
        run=context.run.run,
        goal_metric=context.goal.metric,
        at_least=context.goal.at_least,
        candidates=sorted(found, key=_rank),
        left_alone=_left_alone(x.left_alone(context) for x in levers),
        notes=notes,
    )


def within_budget(candidates: Sequence[Candidate], trials: int) -> list[Candidate]:
    """Return the candidates that `trials` trials are spent on, best predicted first.

    The most promising one of every lever comes first, then combinations, then what is left, so
    that no lever is crowded out by another. Of equal promise the mildest comes first, but where
    answers may change the boldest: it saves most, and the oracle judges it.
    """
    best: dict[str, Candidate] = {}
    for candidate in candidates:
        known = best.get(candidate.lever)
        if known is None or _preference(candidate) > _preference(known):
            best[candidate.lever] = candidate
    first = [c for c in candidates if best[c.lever] is c]
    singles = [c for c in first if "+" not in c.lever]
    rest = [c for c in candidates if best[c.lever] is not c]
    chosen = [*singles, *[c for c in first if c not in singles], *rest][:trials]
    return sorted(chosen, key=_rank)


def _preference(candidate: Candidate) -> tuple[float, int]:
    risk = RISKS.index(candidate.risk)
    return (candidate.predicted.value, risk if candidate.changes_answers else -risk)


def merge(candidates: Sequence[Candidate]) -> Options:
    """Return the changes of several candidates as one.

    UsageError where two want different values of one option: which of the two was measured cannot
    be told from a mixture, so the caller must choose. Order does not matter.
    """
    merged: Options = {}
    wanted_by: dict[str, str] = {}
    for candidate in candidates:
        for option, value in candidate.changes.items():
            if option in merged and not _same(merged[option], value):
                raise UsageError(
                    f"{wanted_by[option]} sets {option} to {merged[option]}, "
                    f"{candidate.candidate} to {value}: keep one of them"
                )
            merged[option] = value
            wanted_by[option] = candidate.candidate
    return dict(sorted(merged.items()))


def are_compatible(candidates: Sequence[Candidate]) -> bool:
    """True where `merge` has an answer."""
    try:
        merge(candidates)
    except UsageError:
        return False
    return True


def _same(one: object, other: object) -> bool:
    """Compare option values; True is not 1."""
    return type(one) is type(other) and one == other


def _rank(candidate: Candidate) -> tuple[float, int]:
    """Order by promise, then by risk; what remains keeps the order in which levers named it."""
    return (-candidate.predicted.value, RISKS.index(candidate.risk))


def _combinations(found: Sequence[Candidate]) -> list[Candidate]:
    """Return pairs of promising changes by different levers: each may hide the other's gain."""
    worth = sorted((c for c in found if c.predicted.value >= WORTH_COMBINING), key=_rank)
    best: dict[str, Candidate] = {}
    for candidate in worth:
        if candidate.changes_answers is None:
            best.setdefault(candidate.lever, candidate)
    pairs = [p for p in itertools.combinations(best.values(), 2) if are_compatible(p)]
    return [_pair(first, second) for first, second in pairs[:MAX_COMBINATIONS]]


def _pair(first: Candidate, second: Candidate) -> Candidate:
    return Candidate(
        candidate=f"{first.candidate}-and-{second.candidate}",
        title=f"{first.title}; and {second.title[0].lower()}{second.title[1:]}",
        lever=f"{first.lever}+{second.lever}",
        changes=merge([first, second]),
        predicted=both(first.predicted, second.predicted),
        reason=f"together, as one may hide the other: {first.reason}; {second.reason}",
        cause=first.cause or second.cause,
        risk=max(first.risk, second.risk, key=RISKS.index),
        changes_answers=None,
        watch=f"{first.watch}; {second.watch}",
        undo=f"{first.undo}; {second.undo}",
    )


def _distinct(context: PlanContext, found: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates that change something, one for each set of changes and each id."""
    kept: list[Candidate] = []
    for candidate in sorted(found, key=_rank):
        if not SAFE_ID.fullmatch(candidate.candidate):
            raise ValueError(f"candidate id {candidate.candidate!r} is not safe as a file name")
        differs = any(not _same(context.option(k), v) for k, v in candidate.changes.items())
        repeated = any(
            k.candidate == candidate.candidate or k.changes == candidate.changes for k in kept
        )
        if differs and not repeated:
            kept.append(candidate)
    return kept


def _left_alone(found: Iterable[list[LeftAlone]]) -> list[LeftAlone]:
    by_setting: dict[str, LeftAlone] = {}
    for item in itertools.chain.from_iterable(found):
        by_setting.setdefault(item.setting, item)
    return [by_setting[setting] for setting in sorted(by_setting)]


def _notes(context: PlanContext) -> list[str]:
    """Return what the plan could not know."""
    notes = []
    if context.attribution.abstained:
        notes.append("the diagnosis abstained: predictions are wide, the trials decide")
    if context.run.summary is None:
        notes.append("the run has no summary: predictions rest on the diagnosis alone")
    if context.run.validity.verdict == "invalid":
        notes.append("the run is invalid: its times must not be used, nor these predictions")
    if context.reusable_tokens_ratio is None:
        notes.append("how much the prompts have in common is not known")
    if not context.stack.effective:
        notes.append("the engine does not say what it runs; options are taken as asked")
    if context.kv_bytes_per_token is None:
        notes.append("the model's cache bytes per token are not known: memory is not predicted")
    if context.num_slots is None and context.stack.engine in ("llama.cpp", "vllm"):
        notes.append("how many requests may run at once is not known; the engine's default holds")
    return notes
