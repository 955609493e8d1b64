"""The certificate of a run: every validity check of DEFINITIONS.md, with its measure."""

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from teardown.load.columns import columns_of
from teardown.load.gaps import median_gap_s
from teardown.load.summary import last_attempts, plateau_of
from teardown.records import Calibration, ErrorBar, Request, Validity, ValidityReason
from teardown.stats import quantile, slope_p_value

ERROR_BUDGET = 0.02  # of intended requests, unless the engagement sets its own
# Latencies of neighbouring requests share a queue, so the slope is judged on means of blocks:
# simulated M/G/8 at 0.8 of its capacity, 300 requests: 10 % warned, with single requests 43 %.
NUM_BLOCKS = 12
# Parts of the plateau in each of which more must be in flight than before for "grows throughout":
# the same simulation, 0.8 of capacity: 1 to 2 % called growing; 1.5 times it: 93 % of 96 requests.
NUM_PARTS = 5
UNSTEADY_P = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What the run was asked to be, and what the sending itself measured.

    reusable_ratio: fraction of prompt tokens that this schedule's own sharing explains.
    clock_moved_s: change of REALTIME - MONOTONIC during the run. receive_lag_p99_s: over all reads
    of the run, read time less kernel stamp; None where the kernel gave no stamps. is_stationary:
    the load is meant to stay the same, so that a trend says something about the stack.
    calibration: what the client added to a load like this one, None where it was not calibrated.
    """

    is_open: bool
    concurrency: int
    rate_per_s: float | None
    num_intended: int
    reusable_ratio: float
    clock_moved_s: float | None
    receive_lag_p99_s: float | None = None
    is_stationary: bool = True
    error_budget: float | None = None
    calibration: Calibration | None = None


def certify(requests: Sequence[Request], conditions: Conditions) -> Validity:
    """Return the verdict: the worst level of all checks; each check is kept with its measure."""
    final = last_attempts(requests)
    good = [r for r in final if not r.is_failed]
    checks = [
        _client_limited(good, conditions),
        _schedule_kept(final, conditions),
        _warm_cache(good, conditions),
        _errors(final, conditions),
        _streaming(good),
        _steady(final, conditions),
        _clock(conditions),
    ]
    return validity_of(checks, _error_bar(conditions))


def validity_of(checks: list[ValidityReason], error_bar: ErrorBar | None = None) -> Validity:
    """Return the verdict on `checks`: the worst level of all of them."""
    worst = {c.level for c in checks}
    return Validity(
        verdict="invalid" if "invalid" in worst else "warnings" if "warn" in worst else "valid",
        reasons=[c for c in checks if c.level != "ok"],
        checks=checks,
        error_bar=error_bar,
    )


def _error_bar(conditions: Conditions) -> ErrorBar:
    """Return the most that the client adds: the calibrated error plus the run's own receive lag.

    The calibrated error has what sending adds and what the stamps are late by under this load. The
    lag of the run is added in full, although kernel stamps take most of it out: where events share
    a read they share the stamp of the newest, and how late that is for the others is not known.
    """
    lag, calibration = conditions.receive_lag_p99_s, conditions.calibration
    known = [
        name
        for name, part in (("receive lag of this run", lag), ("calibration", calibration))
        if part is not None
    ]
    if calibration is None:
        return ErrorBar(ttft_s=lag, gap_s=lag, method=" and ".join(known) or "nothing to judge by")
    return ErrorBar(
        ttft_s=calibration.ttft_overstatement_s.p99 + (lag or 0.0),
        gap_s=calibration.gap_error_s.p99 + (lag or 0.0),
        method=" and ".join(known),
    )


def _check(
    code: str, measure: str, value: float | None, warn: float, invalid: float, text: str
) -> ValidityReason:
    level = "ok"
    if value is not None and value > warn:
        level = "invalid" if value > invalid else "warn"
    return ValidityReason(
        code=code,
        level=level,  # type: ignore[arg-type]  # one of the three literals by construction
        measure=measure,
        value=value,
        warn=warn,
        invalid=invalid,
        text=text,
    )


def _client_limited(good: Sequence[Request], conditions: Conditions) -> ValidityReason:
    measure = "p99 receive lag over the smaller of median gap and median TTFT"
    gap_s = median_gap_s(columns_of(good))
    ttfts = [r.ttft_s for r in good if r.ttft_s is not None]
    scales = [statistics.median(ttfts)] if ttfts else []
    scales += [] if gap_s is None else [gap_s]
    lag = conditions.receive_lag_p99_s
    if lag is None or not scales:
        return _check("client_limited", measure, None, 0.05, 0.20, "no kernel stamps to judge by")
    text = f"the client read its bytes {lag * 1e3:.2f} ms after they arrived (p99 of all reads)"
    return _check("client_limited", measure, lag / min(scales), 0.05, 0.20, text)


def _schedule_kept(final: Sequence[Request], conditions: Conditions) -> ValidityReason:
    if not conditions.is_open or not conditions.rate_per_s:
        reached = _peak_in_flight(final) / conditions.concurrency
        return _check(
            "schedule_not_kept",
            "1 - peak requests in flight over asked",
            max(0.0, 1 - reached),
            0.02,
            0.10,
            f"{reached:.0%} of the asked concurrency was reached",
        )
    lags = sorted(r.client_wait_s for r in final if r.client_wait_s is not None)
    late = quantile(lags, 0.99) * conditions.rate_per_s if lags else None
    sent = sum(r.sent_s is not None for r in final)
    achieved = sent / conditions.num_intended if conditions.num_intended else 1.0
    text = f"{achieved:.1%} of the intended requests were sent"
    if achieved < 0.98:
        return _check(
            "schedule_not_kept", "1 - achieved over asked rate", 1 - achieved, 0.02, 0.10, text
        )
    return _check(
        "schedule_not_kept",
        "p99 send lag over the mean interval between arrivals",
        late,
        0.10,
        0.50,
        text,
    )


def _warm_cache(good: Sequence[Request], conditions: Conditions) -> ValidityReason:
    measure = "cached tokens that this schedule cannot explain, over prompt tokens"
    known = [r for r in good if r.cached_tokens is not None and r.prompt_tokens]
    if not known:
        return _check(
            "warm_cache", measure, None, 0.02, 0.10, "the server reports no cached tokens"
        )
    prompt = sum(r.prompt_tokens or 0 for r in known)
    cached = sum(r.cached_tokens or 0 for r in known)
    unexplained = max(0.0, cached / prompt - conditions.reusable_ratio)
    text = (
        f"{cached / prompt:.1%} of prompt tokens came from a cache; "
        f"the schedule itself explains {conditions.reusable_ratio:.1%}"
    )
    return _check("warm_cache", measure, unexplained, 0.02, 0.10, text)


def _errors(final: Sequence[Request], conditions: Conditions) -> ValidityReason:
    intended = max(conditions.num_intended, len(final))
    failed = sum(r.is_failed for r in final) + max(0, conditions.num_intended - len(final))
    budget = conditions.error_budget if conditions.error_budget is not None else ERROR_BUDGET
    ratio = failed / intended if intended else 1.0
    return _check(
        "errors",
        "failed over intended",
        ratio,
        min(0.005, budget),
        budget,
        f"{failed} of {intended} requests failed or were never sent",
    )


def _streaming(good: Sequence[Request]) -> ValidityReason:
    lumped = sum(r.ttft_s is None for r in good)
    return _check(
        "not_streaming",
        "requests whose chunks came in one read",
        lumped / len(good) if good else None,
        0.05,
        0.50,
        f"{lumped} of {len(good)} answers came in one piece",
    )


def _steady(final: Sequence[Request], conditions: Conditions) -> ValidityReason:
    """Judge the slope of E2E over the plateau; each user's first request is start-up, left out."""
    measure = f"1 - p of the slope of E2E over the plateau, on means of {NUM_BLOCKS} blocks"
    if not conditions.is_stationary:
        text = "not judged: this load is meant to change"
        return _check("unsteady", measure, None, 1 - UNSTEADY_P, 1.0, text)
    start, end = plateau_of(final, concurrency=conditions.concurrency, is_open=conditions.is_open)
    ordered = sorted((r for r in final if r.sent_s is not None), key=lambda r: r.sent_s or 0.0)
    skip = 0 if conditions.is_open else conditions.concurrency
    points = [
        (r.sent_s, r.e2e_from_intended_s / max(r.output_tokens or 1, 1))
        for r in ordered[skip:]
        if r.sent_s is not None and r.e2e_from_intended_s is not None and start <= r.sent_s <= end
    ]
    blocks = _blocks(points)
    found = slope_p_value([p[0] for p in blocks], [p[1] for p in blocks])
    if found is None:
        return _check(
            "unsteady", measure, None, 1 - UNSTEADY_P, 1.0, "too few requests for a trend"
        )
    slope, p_value = found
    in_flight = _mean_in_flight(final, start, end)
    grows = (
        conditions.is_open
        and slope > 0
        and p_value < UNSTEADY_P
        and all(b > a for a, b in itertools.pairwise(in_flight))
    )
    text = (
        f"E2E per output token changes by {slope:+.4f} s per second of the run (p = {p_value:.3f})"
    )
    if grows:
        text += (
            "; the queue grows throughout, from "
            f"{in_flight[0]:.1f} to {in_flight[-1]:.1f} requests in flight: "
            "more arrives than the stack serves, ask a lower rate"
        )
    invalid = 1 - UNSTEADY_P if grows else 1.0
    return _check("unsteady", measure, 1 - p_value, 1 - UNSTEADY_P, invalid, text)


def _blocks(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the means of NUM_BLOCKS runs of neighbours; the points where they are too few."""
    if len(points) < 2 * NUM_BLOCKS:
        return list(points)
    edges = [round(i * len(points) / NUM_BLOCKS) for i in range(NUM_BLOCKS + 1)]
    cuts = [points[a:b] for a, b in itertools.pairwise(edges)]
    return [
        (statistics.fmean(p[0] for p in cut), statistics.fmean(p[1] for p in cut)) for cut in cuts
    ]


def _mean_in_flight(final: Sequence[Request], start: float, end: float) -> list[float]:
    """Return the mean requests in flight, counted from intended, in each part of the plateau."""
    width = (end - start) / NUM_PARTS
    if width <= 0:
        return [0.0] * NUM_PARTS
    spans = [
        (r.intended_s if r.intended_s is not None else r.sent_s, r.sent_s + _open_for(r))
        for r in final
        if r.sent_s is not None
    ]
    parts = []
    for i in range(NUM_PARTS):
        low, high = start + i * width, start + (i + 1) * width
        busy = sum(max(0.0, min(e, high) - max(b, low)) for b, e in spans if b is not None)
        parts.append(busy / width)
    return parts


def _open_for(request: Request) -> float:
    known = request.stream_close_s or request.e2e_s
    if known is None and request.chunk_s and request.sent_s is not None:
        return request.chunk_s[-1] - request.sent_s
    return known or 0.0


def _clock(conditions: Conditions) -> ValidityReason:
    moved = conditions.clock_moved_s
    text = (
        "no clock offsets were kept"
        if moved is None
        else f"the wall clock moved by {moved * 1e3:.3f} ms against the monotonic one"
    )
    return _check("clock", "change of REALTIME - MONOTONIC, s", moved, 0.001, 0.050, text)


def _peak_in_flight(final: Sequence[Request]) -> int:
    edges = sorted(
        edge
        for r in final
        if r.sent_s is not None
        for edge in ((r.sent_s, 1), (r.sent_s + _open_for(r), -1))
    )
    peak = now = 0
    for _, step in edges:
        now += step
        peak = max(peak, now)
    return peak
