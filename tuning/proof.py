"""The proof: the bundle of what was kept against the original, in fresh interleaved pairs."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from teardown.errors import EngineFailed
from teardown.records import Estimate, Headline, Options, Pair, Trial
from teardown.stats import FEWEST_PAIRS, mean_of_runs, ratio_of_pairs
from tuning.gate import Gate
from tuning.goal import BESIDE, metric_named
from tuning.trial import (
    Bench,
    effects,
    fail,
    load_trial,
    make_pair,
    new_trial,
    paired_values,
    with_changes,
)

BUNDLE = "bundle"
# A pair whose run is invalid or whose work is unequal does not count, whatever it shows; so many
# are made again before the proof gives up.
SPARE_PAIRS = 2


def prove(
    bench: Bench,
    gate: Gate,
    *,
    trial_id: str,
    candidates: Sequence[str],
    changes: Options,
    num_pairs: int,
    metric: str,
) -> Trial:
    """Return the finished proof of `changes`: the oracle, then pairs in the order B A A B B A A B.

    B, the changed stack, comes first because the oracle has just asked it; neighbours of the same
    stack need no restart, which halves what a slow engine costs.
    """
    trial = load_trial(bench.engagement, new_trial(trial_id, "proof", candidates, changes))
    if trial.state == "done":
        return trial
    trial = bench.save(replace(trial, state="running"))
    try:
        if trial.oracle is None:
            bench.target.apply(with_changes(bench.original, changes))
            trial = bench.save(
                replace(trial, stack=bench.target.read_back(), oracle=gate.check(bench, trial_id))
            )
        if trial.oracle is not None and not trial.oracle.passed:
            broken = "; ".join(c.says for c in trial.oracle.checks if not c.holds)
            return _done(bench, trial, "rejected", f"the oracle refuses it: {broken}", metric)
        while _counted(trial) < num_pairs and len(trial.pairs) < num_pairs + SPARE_PAIRS:
            first: Literal["before", "after"] = "after" if len(trial.pairs) % 2 == 0 else "before"
            pair = _pair(bench, changes, first, metric)
            trial = bench.save(replace(trial, pairs=[*trial.pairs, pair]))
    except EngineFailed as error:
        return fail(bench, trial, error)
    effect, _ = effects(bench.engagement, trial.pairs, metric)
    decision, because = decide(effect, trial.pairs)
    return _done(bench, trial, decision, because, metric)


def _counted(trial: Trial) -> int:
    return sum(p.excluded is None for p in trial.pairs)


def decide(
    effect: Estimate | None, pairs: Sequence[Pair]
) -> tuple[Literal["kept", "rejected", "no_change"], str]:
    """Return the decision by DEFINITIONS.md: at least 4 pairs and an interval that excludes 1."""
    counted = [p for p in pairs if p.excluded is None]
    if effect is None or len(counted) < FEWEST_PAIRS:
        excluded = "; ".join(str(p.excluded) for p in pairs if p.excluded)
        return "rejected", (
            f"{len(counted)} of {len(pairs)} pairs count, a claim needs {FEWEST_PAIRS}"
            + (f" ({excluded})" if excluded else "")
        )
    says = f"{effect.value:.2f}× [{effect.low:.2f}, {effect.high:.2f}] over {effect.n} pairs"
    if not effect.excludes_one:
        return "no_change", f"no measurable change: {says}"
    if effect.value < 1:
        return "rejected", f"it makes things worse: {says}"
    return "kept", says


def _pair(bench: Bench, changes: Options, first: str, metric: str) -> Pair:
    changed = with_changes(bench.original, changes)
    if first == "before":
        before = bench.measure(bench.original, "control")
        after = bench.measure(changed, BUNDLE)
        return make_pair(before, after, "before", metric)
    after = bench.measure(changed, BUNDLE)
    before = bench.measure(bench.original, "control")
    return make_pair(before, after, "after", metric)


def _done(
    bench: Bench,
    trial: Trial,
    decision: Literal["kept", "rejected", "no_change"],
    because: str,
    metric: str,
) -> Trial:
    effect, secondary = effects(bench.engagement, trial.pairs, metric)
    return bench.save(
        replace(
            trial,
            effect=effect,
            secondary=secondary,
            state="done",
            decision=decision,
            because=because,
            ended_unix_s=time.time(),
        )
    )


def headlines(bench: Bench, proof: Trial, metric: str) -> list[Headline]:
    """Return three numbers before and after, over the runs of the proof: goal metric first."""
    names = [metric, *[m for m in BESIDE if m != metric]][:3]
    values = paired_values(bench.engagement, proof.pairs, names)
    return [_headline(name, values[name]) for name in names]


def _headline(name: str, pairs: Sequence[tuple[float, float]]) -> Headline:
    metric = metric_named(name)
    return Headline(
        metric=name,
        label=metric.label,
        unit=metric.unit,
        better=metric.better,
        before=mean_of_runs([before for before, _ in pairs]),
        after=mean_of_runs([after for _, after in pairs]),
        change=ratio_of_pairs(pairs, metric.better),
    )
