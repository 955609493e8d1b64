"""How much a stack carries: a workload's levels are measured, judged, and written down.

`capacity` searches for the rate, `voice` goes through the asked numbers of calls. A level keeps the
promise when the lower end of its attainment (Wilson) meets it. What a stack refused, or could not
keep up with, is a miss; a level that is invalid for the client's or the cache's sake says nothing.
`capacity.json` is written after each level, and a search that was cut goes on with what it has.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import msgspec

from teardown.bisection import Bisection
from teardown.diagnosis import diagnose_run, newest_run, valid_runs
from teardown.engagement import Engagement, write_atomic
from teardown.errors import TeardownError, UsageError
from teardown.measure import Job
from teardown.records import Capacity, CapacityResult, Level, Limiter, Outcome, Run, read, to_json
from teardown.runs import RUN_FILE
from teardown.settings import Promises, WorkloadSettings
from teardown.stats import proportion
from teardown.text import estimate, quantile_text
from teardown.workload.levels import capacity_level, levels_of

# Reasons of an invalid run that are the stack's own doing. Requests that were never sent because
# errors stopped the run are `schedule_not_kept` too, and count only with one of the others.
STACKS_OWN: Final = frozenset({"errors", "unsteady"})
FOLLOWS: Final = frozenset({"schedule_not_kept"})
NO_PROMISE: Final = "no promise is named, so nothing can be kept; set one under `promises:`"

MeasureLevel = Callable[[Job], Run]


class Judged(NamedTuple):
    """What a run says of its level, and in words."""

    outcome: Outcome
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The runs of one workload, and what the stack carries where it was asked.

    Runs that are invalid because the stack was overloaded are left out: they are findings.
    """

    runs: list[Run]
    result: CapacityResult | None = None


def measure_workload(job: Job, measure: MeasureLevel) -> Measured:
    """Measure every level of `job.load`, each by `measure` and as a run of its own.

    UsageError where a capacity is asked without a promise, or with too few requests to show it.
    """
    if job.load.kind == "capacity":
        return _search(job, measure)
    if job.load.kind == "voice":
        return _climb(job, measure)
    *first, last = levels_of(job.load)
    jobs = [replace(job, load=level, more_runs=True) for level in first]
    return Measured(runs=[measure(one) for one in [*jobs, replace(job, load=last)]])


def judge(run: Run, promised: float) -> Judged:
    """Return whether `run` kept a promise whose attainment is `promised`."""
    if run.validity.verdict == "invalid":
        found = [r for r in run.validity.reasons if r.level == "invalid"]
        codes = {reason.code for reason in found}
        text = "; ".join(f"{reason.code}: {reason.text}" for reason in found)
        is_own = bool(codes & STACKS_OWN) and codes <= STACKS_OWN | FOLLOWS
        return Judged("missed" if is_own else "unjudged", text)
    attainment = run.summary.plateau.attainment if run.summary else None
    if attainment is None or attainment.low is None:
        return Judged("unjudged", NO_PROMISE)
    text = f"promise kept by {estimate(attainment, percent=True)}, {100 * promised:g} % promised"
    return Judged("kept" if attainment.low >= promised else "missed", text)


def results_of(engagement: Engagement, runs: list[Run]) -> list[CapacityResult]:
    """Return the results that one of `runs` is a level of."""
    names = {run.run for run in runs}
    return [r for r in _stored(engagement) if any(level.run in names for level in r.levels)]


def result_text(result: CapacityResult) -> str:
    """Return a result as lines for a terminal."""
    unit = "calls at once" if result.unit == "calls" else "requests a second"
    low, high = (None if x is None else f"{x:g}" for x in (result.low, result.high))
    lines = [
        f"{result.workload} on {result.stack}: "
        + (f"{low} {unit} kept the promise" if low else f"no level of {unit} kept the promise")
        + (f", {high} did not" if high else "")
    ]
    for level in sorted(result.levels, key=lambda level: level.asked):
        lines.append(f"  {level.asked:g}: {level.outcome} ({level.why}), {level.run}")
        if level.ttfo_s is not None and level.silence_s is not None:
            lines.append(f"    TTFO {quantile_text(level.ttfo_s)}")
            lines.append(f"    silence a turn {quantile_text(level.silence_s)}")
    if result.reason:
        lines.append(f"  {result.reason}")
    if result.limiter is not None:
        cause = f", cause {result.limiter.cause}" if result.limiter.cause else ""
        lines.append(f"  limited by {result.limiter.time_class}{cause} in {result.limiter.run}")
    elif result.no_limiter:
        lines.append(f"  no limiter named: {result.no_limiter}")
    return "\n".join(lines)


def is_measured(engagement: Engagement, stack: str, load: WorkloadSettings) -> bool:
    """True when `load` need not be measured again on `stack`: its levels are known."""
    if load.kind in ("capacity", "voice"):
        known = [r for r in _stored(engagement) if (r.stack, r.workload) == (stack, load.name)]
        return bool(known) and known[0].is_complete
    return all(valid_runs(engagement, stack, level.name) for level in levels_of(load))


def _search(job: Job, measure: MeasureLevel) -> Measured:
    load, promises = job.load, job.settings.promises
    _check_promise(load, promises)
    search = Bisection(
        load.rate_per_s or 0.0,
        precision_ratio=load.precision_ratio,
        most=job.settings.limits.max_requests_per_s,
    )
    book = _Book(job, "requests_per_s")
    while (rate := search.next_rate()) is not None:
        level = book.take(rate, capacity_level(load, rate), measure)
        search.tell(rate, level.outcome, level.why)
    return book.close(search.low, search.high, search.reason)


def _climb(job: Job, measure: MeasureLevel) -> Measured:
    """Measure each number of calls; sustained is the last one before the first that did not."""
    book = _Book(job, "calls")
    low = high = reason = None
    for load in levels_of(job.load):
        calls = float(load.concurrency)
        level = book.take(calls, load, measure)
        if level.outcome == "unjudged":
            reason = reason or f"{calls:g} calls could not be judged: {level.why}"
        elif level.outcome == "missed":
            high = calls if high is None else high
        elif high is None and reason is None:
            low = calls
    if high is None and reason is None:
        reason = f"more than {low:g} calls were not tried"
    return book.close(low, high, reason)


def _check_promise(load: WorkloadSettings, promises: Promises) -> None:
    if not any((promises.ttft_s, promises.ttfo_s, promises.tpot_s, promises.e2e_s)):
        raise UsageError(f"workload {load.name!r} searches for a capacity, but {NO_PROMISE}")
    number = capacity_level(load, load.rate_per_s or 0.0).requests or 0
    best = proportion(number, number)
    if best is None or best.low is None or best.low < promises.attainment:
        raise UsageError(
            f"workload {load.name!r}: {number} `requests` a level cannot show an attainment of "
            f"{promises.attainment:g}, even when every one keeps the promise; ask for more"
        )


class _Book:
    """The levels of one workload on one stack, kept in the folder as they come."""

    def __init__(self, job: Job, unit: str) -> None:
        self._job = job
        settings = msgspec.json.encode([job.load, job.settings.promises])
        fresh = CapacityResult(
            stack=job.stack,
            workload=job.load.name,
            unit="calls" if unit == "calls" else "requests_per_s",
            promised=job.settings.promises.attainment,
            low=None,
            high=None,
            is_complete=False,
            settings_sha256=hashlib.sha256(settings).hexdigest(),
        )
        known = next((r for r in _stored(job.engagement) if _is_same(r, fresh)), None)
        goes_on = (
            known is not None
            and not known.is_complete
            and (known.settings_sha256 == fresh.settings_sha256)
        )
        self._result = known if known is not None and goes_on else fresh
        self._runs: list[Run] = []

    def take(self, asked: float, load: WorkloadSettings, measure: MeasureLevel) -> Level:
        """Return a level as it was measured before the search was cut, or measure it now."""
        known = next((level for level in self._result.levels if level.asked == asked), None)
        if known is not None:
            path = self._job.engagement.run_dir(known.run) / RUN_FILE
            self._runs += [read(Run, path)] if known.verdict != "invalid" else []
            return known
        # how many levels follow is not known yet, so joined workers stay until they hear no more
        run = measure(replace(self._job, load=load, more_runs=True))
        outcome, why = judge(run, self._result.promised)
        is_call = self._result.unit == "calls"
        window = run.summary.plateau if run.summary else None
        level = Level(
            asked=asked,
            run=run.run,
            verdict=run.validity.verdict,
            outcome=outcome,
            attainment=window.attainment if window else None,
            why=why,
            ttfo_s=window.ttfo_s if window and is_call else None,
            silence_s=window.silence_s if window else None,
        )
        if outcome != "missed" or run.validity.verdict != "invalid":
            self._runs.append(run)
        self._keep(replace(self._result, levels=[*self._result.levels, level]))
        return level

    def close(self, low: float | None, high: float | None, reason: str | None) -> Measured:
        """Write the result down, with the limiter at the smallest level that was missed."""
        limiter, no_limiter = self._limiter(high)
        self._keep(
            replace(
                self._result,
                low=low,
                high=high,
                reason=reason,
                limiter=limiter,
                no_limiter=no_limiter,
                is_complete=True,
            )
        )
        return Measured(runs=self._runs, result=self._result)

    def _limiter(self, high: float | None) -> tuple[Limiter | None, str | None]:
        if high is None:
            return None, "no level missed the promise"
        run_id = next(level.run for level in self._result.levels if level.asked == high)
        engagement, settings = self._job.engagement, self._job.settings
        try:
            found = diagnose_run(engagement, settings, newest_run(engagement, run_id))
        except TeardownError as error:
            return None, str(error)
        if found.time_class is None or found.abstained:
            why = "; ".join(found.notes) or "the evidence does not tell the classes apart"
            return None, f"the diagnosis of {run_id} abstains: {why}"
        return Limiter(run=run_id, time_class=found.time_class, cause=found.cause), None

    def _keep(self, result: CapacityResult) -> None:
        self._result = result
        others = [r for r in _stored(self._job.engagement) if not _is_same(r, result)]
        record = Capacity(results=[*others, result])
        write_atomic(self._job.engagement.capacity_path, to_json(record))


def _is_same(one: CapacityResult, other: CapacityResult) -> bool:
    return (one.stack, one.workload) == (other.stack, other.workload)


def _stored(engagement: Engagement) -> list[CapacityResult]:
    path = engagement.capacity_path
    return read(Capacity, path).results if path.exists() else []
