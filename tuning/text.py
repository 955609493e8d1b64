"""Plans and verdicts as text for a terminal."""

from teardown.records import Estimate, Plan, VerdictRecord
from teardown.text import headline_text


def plan_text(plan: Plan) -> str:
    """Return the candidates, best predicted first, and what is left alone."""
    lines = [f"{len(plan.candidates)} candidates for {plan.goal_metric}, from {plan.run}:"]
    for c in plan.candidates:
        risky = f"; may change answers: {c.changes_answers}" if c.changes_answers else ""
        lines.append(f"  {c.candidate}: {c.title} — predicted {factor(c.predicted)}{risky}")
        lines.append(f"      {c.reason}")
    for left in plan.left_alone:
        lines.append(f"  left alone: {left.setting} = {left.value}: {left.because}")
    lines += [f"  note: {note}" for note in plan.notes]
    return "\n".join(lines)


def verdict_text(verdict: VerdictRecord) -> str:
    """Return the verdict: the sentence, the numbers, what was kept and rejected."""
    lines = [verdict.sentence]
    lines += [f"  {headline_text(line)}" for line in verdict.headlines]
    lines += [f"  kept: {name}" for name in verdict.kept]
    lines += [f"  not kept: {name}: {because}" for name, because in verdict.rejected.items()]
    lines += [f"  note: {note}" for note in verdict.notes]
    return "\n".join(lines)


def factor(estimate: Estimate) -> str:
    """Return a factor with its interval, such as 1.8× [1.2, 2.4]."""
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.2f}×"
    return f"{estimate.value:.2f}× [{estimate.low:.2f}, {estimate.high:.2f}]"
