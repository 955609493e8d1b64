"""Trials: interleaved run pairs of one schedule on two stacks, and their effect.

A trial's record is written before it starts and after every run, so that a killed kit goes on
where it stopped: finished pairs stay, an unfinished one is made again from its beginning.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from teardown.engagement import Engagement, write_atomic
from teardown.errors import EngineFailed, UsageError
from teardown.load.config import Progress
from teardown.measure import Job, measure_run
from teardown.records import Estimate, Options, Pair, Run, Trial, read, to_json
from teardown.settings import Settings, WorkloadSettings
from teardown.stats import ratio_of_pairs
from teardown.targets.protocol import Target
from teardown.ui import Console
from tuning.goal import BESIDE, METRICS, metric_named, shared_window, value_of

# Relative difference of input or output tokens above which a pair compares unequal work
# (DEFINITIONS.md, unequal_work: invalid).
UNEQUAL_WORK = 0.05
CONTROL = "control"

Side = Literal["before", "after"]
OnTrial = Callable[[Trial], Trial]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Where trials run: the target, its original options, the workload and the goal."""

    engagement: Engagement
    settings: Settings
    target: Target
    load: WorkloadSettings
    original: Options
    on_progress: Callable[[Progress], None]
    console: Console

    def measure(self, options: Options, stack: str) -> Run:
        """Put `options` in force and measure one fresh run of the schedule under `stack`."""
        self.target.apply(options)
        job = Job(
            engagement=self.engagement,
            settings=self.settings,
            load=self.load,
            target=self.target,
            stack=stack,
            resume=False,
        )
        run = measure_run(job, self.on_progress)
        self.console.run_made()
        return run

    def save(self, trial: Trial) -> Trial:
        """Write the record of `trial` and return it."""
        write_atomic(self.engagement.trial_path(trial.trial), to_json(trial))
        return trial


def new_trial(
    trial: str, kind: Literal["screen", "proof"], candidates: Sequence[str], changes: Options
) -> Trial:
    """Return a trial that has not begun."""
    return Trial(
        trial=trial,
        kind=kind,
        candidates=list(candidates),
        changes=changes,
        stack=None,
        oracle=None,
        pairs=[],
        effect=None,
        secondary={},
        state="planned",
        decision="pending",
        because="",
        started_unix_s=time.time(),
    )


def load_trial(engagement: Engagement, trial: Trial) -> Trial:
    """Return the stored record of the same trial (same changes), else `trial` as it is."""
    path = engagement.trial_path(trial.trial)
    if not path.exists():
        return trial
    try:
        stored = read(Trial, path)
    except UsageError:
        return trial
    same = stored.changes == trial.changes and stored.candidates == trial.candidates
    return stored if same else trial


def with_changes(original: Options, changes: Options) -> Options:
    """Return `original` with `changes` made; a value of None takes the option away."""
    merged = {**original, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def make_pair(before: Run, after: Run, first: Side, metric: str) -> Pair:
    """Return the pair of two runs; `excluded` says why it may not count."""
    work = unequal_work(before, after)
    window = shared_window(before, after, metric)
    values = (value_of(before, metric, window), value_of(after, metric, window))
    excluded = None
    for run in (before, after):
        if run.validity.verdict == "invalid":
            excluded = f"{run.run} is invalid: {', '.join(r.code for r in run.validity.reasons)}"
    if excluded is None and work is not None and work > UNEQUAL_WORK:
        excluded = f"unequal work: tokens differ by {work:.1%}"
    if excluded is None and None in values:
        excluded = f"{metric} is withheld: too few requests"
    return Pair(
        run_before=before.run,
        run_after=after.run,
        before=values[0],
        after=values[1],
        first=first,
        equal_work=work,
        excluded=excluded,
        window=window,
    )


def unequal_work(before: Run, after: Run) -> float | None:
    """Return the larger relative difference of input and output tokens; None when unknown.

    Cached tokens are left out: a prefix cache is a change that may be on trial.
    """
    if before.summary is None or after.summary is None:
        return None
    worst = 0.0
    for name in ("prompt_tokens", "output_tokens"):
        a: int = getattr(before.summary.whole, name)
        b: int = getattr(after.summary.whole, name)
        worst = max(worst, abs(a - b) / max(a, b, 1))
    return worst


def effects(
    engagement: Engagement, pairs: Sequence[Pair], metric: str
) -> tuple[Estimate | None, dict[str, Estimate]]:
    """Return the effect on the goal metric and on the others, from the pairs that count."""
    counted = [p for p in pairs if p.excluded is None]
    goal = ratio_of_pairs(
        [(p.before, p.after) for p in counted if p.before is not None and p.after is not None],
        metric_named(metric).better,
    )
    others = [name for name in BESIDE if name != metric]
    found = {
        name: ratio_of_pairs(values, METRICS[name].better)
        for name, values in paired_values(engagement, pairs, others).items()
    }
    return goal, {name: effect for name, effect in found.items() if effect is not None}


def paired_values(
    engagement: Engagement, pairs: Sequence[Pair], metrics: Sequence[str]
) -> dict[str, list[tuple[float, float]]]:
    """Return by metric the value before and after of each pair that counts and has both."""
    counted = [p for p in pairs if p.excluded is None]
    runs = {
        name: read(Run, engagement.run_dir(name) / "run.json")
        for p in counted
        for name in (p.run_before, p.run_after)
    }
    return {
        metric: [
            (before, after)
            for p in counted
            if (before := value_of(runs[p.run_before], metric, p.window)) is not None
            and (after := value_of(runs[p.run_after], metric, p.window)) is not None
        ]
        for metric in metrics
    }


def fail(bench: Bench, trial: Trial, error: EngineFailed) -> Trial:
    """Record that the changed stack did not run; the original is put back."""
    bench.target.apply(bench.original)
    return bench.save(
        replace(
            trial,
            state="done",
            decision="failed",
            because=str(error),
            ended_unix_s=time.time(),
        )
    )
