"""Screening: one interleaved pair a candidate, behind the oracle. It ranks; it keeps nothing."""

import time
from collections.abc import Sequence
from dataclasses import replace

from teardown.errors import EngineFailed
from teardown.records import Candidate, Estimate, Run, Trial, read
from teardown.stats import t_interval
from tuning.gate import Gate
from tuning.goal import value_of
from tuning.trial import (
    CONTROL,
    Bench,
    OnTrial,
    Side,
    effects,
    fail,
    load_trial,
    make_pair,
    new_trial,
    with_changes,
)

# A screened gain must beat both the noise between equal runs and this factor; below it a change
# is not worth an operator's attention.
LEAST_GAIN = 1.05


class Screening:
    """Runs in the order control, c1, c2, control, c3, c4, control: every candidate stands next to
    a control run of its own schedule, and two candidates share one control."""

    def __init__(self, bench: Bench, gate: Gate, metric: str) -> None:
        self._bench = bench
        self._gate = gate
        self._metric = metric
        self.controls: list[Run] = []

    def screen(self, candidates: Sequence[Candidate], on_trial: OnTrial) -> list[Trial]:
        """Return the finished trial of each candidate, in the order given."""
        trials = []
        control: Run | None = None
        uses = 0
        for candidate in candidates:
            trial = load_trial(
                self._bench.engagement,
                new_trial(
                    f"screen-{candidate.candidate}",
                    "screen",
                    [candidate.candidate],
                    candidate.changes,
                ),
            )
            if trial.state == "done":
                self._recall(trial)
                trials.append(on_trial(trial))
                continue
            trial = self._bench.save(replace(trial, state="running", started_unix_s=time.time()))
            if control is None:
                control, uses = self._control(), 0
            first: Side = "before" if uses == 0 else "after"
            try:
                after = self._bench.measure(
                    with_changes(self._bench.original, candidate.changes), candidate.candidate
                )
                oracle = self._gate.check(self._bench, candidate.candidate)
            except EngineFailed as error:
                trials.append(on_trial(fail(self._bench, trial, error)))
                continue
            stack = self._bench.target.read_back()
            if first == "after":
                control = self._control()
            pair = make_pair(control, after, first, self._metric)
            uses += 1
            if first == "after":
                uses = 0
            effect, secondary = effects(self._bench.engagement, [pair], self._metric)
            trials.append(
                on_trial(
                    self._bench.save(
                        replace(
                            trial,
                            stack=stack,
                            oracle=oracle,
                            pairs=[pair],
                            effect=effect,
                            secondary=secondary,
                            state="done",
                            ended_unix_s=time.time(),
                        )
                    )
                )
            )
        return trials

    def _control(self) -> Run:
        run = self._bench.measure(self._bench.original, CONTROL)
        self.controls.append(run)
        return run

    def _recall(self, trial: Trial) -> None:
        """Count the controls of a trial that an earlier session finished."""
        known = {r.run for r in self.controls}
        for pair in trial.pairs:
            path = self._bench.engagement.run_dir(pair.run_before) / "run.json"
            if pair.run_before not in known and path.exists():
                self.controls.append(read(Run, path))


def noise_floor(controls: Sequence[Run], metric: str) -> Estimate | None:
    """Return the factor by which two equal runs differ (A/A), from the control runs.

    1.96 · √2 · standard deviation of the logs of the control values; None below two controls.
    """
    import math

    values = [v for r in controls if (v := _any_value(r, metric)) is not None and v > 0]
    if len(values) < 2:
        return None
    logs = [math.log(v) for v in values]
    mean = math.fsum(logs) / len(logs)
    deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in logs) / (len(logs) - 1))
    factor = math.exp(1.96 * math.sqrt(2) * deviation)
    low, high = t_interval(logs)
    return Estimate(
        value=factor,
        low=None,
        high=None,
        n=len(values),
        method=(
            "1.96·√2·sd of the logs of the control runs; their mean lies within "
            f"{math.exp(low):.3g} to {math.exp(high):.3g}"
        ),
    )


def _any_value(run: Run, metric: str) -> float | None:
    value = value_of(run, metric)
    return value if value is not None else value_of(run, metric, "whole")


def judge_screened(trials: Sequence[Trial], floor: Estimate | None) -> list[Trial]:
    """Return the trials with their screening decision: kept for the proof, or why not."""
    threshold = max(LEAST_GAIN, floor.value if floor else LEAST_GAIN)
    return [_judge(trial, threshold) for trial in trials]


def _judge(trial: Trial, threshold: float) -> Trial:
    if trial.decision == "failed":
        return trial
    if trial.oracle is not None and not trial.oracle.passed:
        broken = "; ".join(c.says for c in trial.oracle.checks if not c.holds)
        return replace(trial, decision="rejected", because=f"the oracle refuses it: {broken}")
    if trial.effect is None:
        why = next((p.excluded for p in trial.pairs if p.excluded), "its pair could not be judged")
        return replace(trial, decision="rejected", because=str(why))
    if trial.effect.value >= threshold:
        return replace(
            trial,
            decision="kept",
            because=f"one pair shows {trial.effect.value:.2f}×, above the {threshold:.2f}× "
            "by which equal runs may differ; it goes into the proof",
        )
    if trial.effect.value <= 1 / threshold:
        return replace(
            trial,
            decision="rejected",
            because=f"one pair shows {trial.effect.value:.2f}×: it makes things worse",
        )
    return replace(
        trial,
        decision="no_change",
        because=f"one pair shows {trial.effect.value:.2f}×, within the {threshold:.2f}× "
        "by which equal runs may differ",
    )
