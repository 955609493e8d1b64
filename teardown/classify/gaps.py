"""Divide decoding time: plain steps, stalls by other requests' prompts, stalls by preemption."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from teardown.classify.findings import Findings
from teardown.classify.phases import Phases
from teardown.classify.timeline import Array, Timeline

# A gap above this many plain steps is a stall (diagnosis 3.5: P99/P50 above 3 is the signature).
LONG_GAP_STEPS = 3.0
# Fewer plain gaps than this do not show what a plain step costs; then the fastest tenth does.
FEWEST_PLAIN_GAPS = 30
FAST_QUANTILE = 0.10
# A prompt's window is widened to this many times its prefill where that is estimated (a mean spread
# over requests by tokens); a request's own timings are exact.
WINDOW_WIDTH = {"server timings": 1.0, "metrics": 1.5, "client": 1.0}


class Decoding(NamedTuple):
    """Seconds per request: plain steps, stalls by others' prompts, preemption (waiting again and
    recomputing), stalls that nothing explains. step_s: one plain step; None without gaps."""

    plain: Array
    interference: Array
    preempted: Array
    recomputed: Array
    stalled: Array
    step_s: float | None


def decoding(line: Timeline, phase: Phases, preemptions: float, found: Findings) -> Decoding:
    """Divide the time from first to last content of every request."""
    nothing = np.zeros_like(line.total)
    gaps = line.gaps
    if len(gaps.start) == 0:
        return Decoding(line.decode, nothing, nothing, nothing, nothing, None)
    length = gaps.length
    mixed = _overlaps(line, phase)
    step = _plain_step(length, mixed, found)
    is_long = length > LONG_GAP_STEPS * step
    lost = _longest(length, is_long, round(preemptions))
    excess = length - step
    again = np.minimum(excess, float(np.mean(phase.prefill)))
    recomputed = _per_request(line, np.where(lost, again, 0.0))
    preempted = _per_request(line, np.where(lost, excess - again, 0.0))
    interference = _per_request(line, np.where(mixed & ~lost, excess, 0.0))
    stalled = _per_request(line, np.where(is_long & ~mixed & ~lost, excess, 0.0))
    interference = np.clip(interference, 0.0, None)
    plain = np.clip(line.decode - interference - preempted - recomputed - stalled, 0.0, None)
    _say(line, length, mixed, interference, step, found)
    return Decoding(plain, interference, preempted, recomputed, stalled, step)


def _overlaps(line: Timeline, phase: Phases) -> NDArray[np.bool_]:
    """True for a gap during which another request's prompt was computed.

    A request's own prompt ends at its first chunk, so its own gaps never overlap it.
    """
    width = np.minimum(WINDOW_WIDTH[phase.source] * (line.first - phase.executed), line.ttft)
    ends = np.sort(line.first)
    starts = np.sort(line.first - width)
    began = np.searchsorted(starts, line.gaps.end, side="left")
    ended = np.searchsorted(ends, line.gaps.start, side="right")
    return np.asarray(began > ended)


def _plain_step(length: Array, mixed: NDArray[np.bool_], found: Findings) -> float:
    plain = length[~mixed]
    if len(plain) >= FEWEST_PLAIN_GAPS:
        typical = float(np.median(plain[plain > 0])) if (plain > 0).any() else 0.0
        return float(np.mean(plain[plain <= LONG_GAP_STEPS * typical]))
    found.doubt(
        0.85, "hardly a gap is free of other requests' prompts; the fastest tenth stands in"
    )
    return float(np.quantile(length, FAST_QUANTILE))


def _longest(length: Array, is_long: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
    """Mark the `count` longest of the long gaps: a preempted request stands longer than any."""
    chosen = np.zeros(len(length), dtype=np.bool_)
    candidates = np.flatnonzero(is_long)
    chosen[candidates[np.argsort(-length[candidates], kind="stable")[:count]]] = True
    return chosen


def _per_request(line: Timeline, seconds: Array) -> Array:
    summed = np.bincount(line.gaps.owner, weights=seconds, minlength=len(line.requests))
    return np.asarray(summed, dtype=np.float64)


def _say(
    line: Timeline,
    length: Array,
    mixed: NDArray[np.bool_],
    interference: Array,
    step: float,
    found: Findings,
) -> None:
    found.saw("plain decode step", step, "s", "chunk gaps at the client", "mean gap, no prompts in")
    if mixed.any() and (~mixed).any():
        found.saw(
            "gap with another's prompt less gap without",
            float(length[mixed].mean() - length[~mixed].mean()),
            "s",
            "chunk gaps at the client",
            f"{mixed.mean():.0%} of gaps overlap another request's prefill",
            "prefill_interference",
        )
    found.saw(
        "decoding stalled by other requests' prompts",
        float(interference.sum() / line.total.sum()),
        "ratio",
        "chunk gaps at the client",
        "of experienced time",
        "prefill_interference",
    )
