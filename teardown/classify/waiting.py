"""Decide what waiting was: scheduling where a limit binds and lifting it shortens E2E, else what
the engine executed meanwhile.

Engine time per request at batch B is e(B) = p + n step(B) / B, with p its prompt's own time and n
its tokens. N requests in the system then take N e(B) each, so lifting the batch from B to B' saves
the fraction 1 - e(B') / e(B) of E2E. A step grows with its batch by the cache that each sequence
reads and by the time that one more token takes to compute, measured as the rate of prompt tokens:
on an engine bound by computing, as on a CPU, a larger batch saves little.
"""

from typing import NamedTuple

import numpy as np

from teardown.classify import options as opt
from teardown.classify.counters import Seen
from teardown.classify.data import RunData
from teardown.classify.findings import Findings
from teardown.classify.ledger import Entry, Ledger
from teardown.classify.step import Step
from teardown.classify.timeline import Array, Load, Timeline

# diagnosis 3.5: usage of 0.95 with requests waiting is a full pool; below 0.9 it is not.
KV_FULL_RATIO, KV_FREE_RATIO = 0.95, 0.90
# A limit binds when it is reached in at least half of the moments at which requests wait.
MIN_BINDING_RATIO = 0.5
# Without a known limit, running must stand still at its largest value in this part of them.
PLATEAU_RATIO, FEWEST_MOMENTS = 0.8, 3
# A gain below this is within the step model's own error; lifting is then not said to help.
MIN_GAIN_RATIO = 0.05


class Limit(NamedTuple):
    """What held requests back: its cause, and the batch at which it did."""

    cause: str
    batch: float
    kv_usage_ratio: float | None


def binding_limit(data: RunData, seen: Seen | None, held: Load, found: Findings) -> Limit | None:
    """Return the limit that was reached while requests waited; None when none was."""
    cap = opt.number(data.options, opt.SEQUENCE_LIMITS)
    cap = cap if cap and cap >= 1 else None
    moments = seen.waiting_moments if seen else []
    if not moments:
        return _from_client(data, cap, held, found)
    running = np.array([m.running or 0.0 for m in moments])
    usage = [m.kv_usage_ratio for m in moments if m.kv_usage_ratio is not None]
    peak, mean = (max(usage), float(np.mean(usage))) if usage else (None, None)
    at_cap = float((running >= cap).mean()) if cap else 0.0
    preemptions = (seen.rise.preemptions or 0.0) if seen else 0.0
    is_full = preemptions > 0 or (peak is not None and peak >= KV_FULL_RATIO)
    if is_full and at_cap < MIN_BINDING_RATIO:
        says = f"at most; mean {mean or 0:.2f} while requests waited"
        found.saw("preemptions", preemptions, "count", "metrics", "over the run", "kv_capacity")
        found.saw("KV cache usage", peak or 0.0, "ratio", "metrics", says, "kv_capacity")
        return Limit("kv_capacity", float(running.mean()), mean)
    if peak is not None and peak >= KV_FREE_RATIO and at_cap < MIN_BINDING_RATIO:
        return None
    if at_cap >= MIN_BINDING_RATIO and cap:
        says = f"running at the limit of {cap:.0f} in {at_cap:.0%} of moments with waiting"
        found.saw("sequences running", running.mean(), "count", "metrics", says, "batch_cap")
        return Limit("batch_cap", cap, mean)
    still = float((running == running.max()).mean())
    if cap is None and len(running) >= FEWEST_MOMENTS and still >= PLATEAU_RATIO:
        says = f"stands at {running.max():.0f} while requests wait; the limit itself is not known"
        found.saw("sequences running", running.max(), "count", "metrics", says, "batch_cap")
        found.doubt(0.9, "the limit on running sequences is inferred from a standstill")
        return Limit("batch_cap", float(running.max()), mean)
    return None


def _from_client(data: RunData, cap: float | None, held: Load, found: Findings) -> Limit | None:
    """Judge from the requests alone: how many were executing while others waited."""
    waited = held.waiting.sum()
    if cap is None or waited <= 0:
        return None
    full = held.executing >= cap * data.num_replicas - 0.5
    at_cap = float(held.waiting[full].sum() / waited)
    if at_cap < MIN_BINDING_RATIO:
        return None
    says = f"{at_cap:.0%} of waiting passed with all {cap:.0f} slots taken"
    found.saw("slots taken", at_cap, "ratio", "server timings", says, "batch_cap")
    return Limit("batch_cap", cap, None)


def gain_of_lifting(
    data: RunData,
    limit: Limit,
    line: Timeline,
    held: Load,
    step: Step,
    step_s: float | None,
    found: Findings,
) -> float:
    """Return the fraction of E2E that an unbounded batch would save, by the step model.

    step_s: the mean step without prompts, stalls included.
    """
    busy = held.prefilling > 0
    span = float(held.t[-1] - held.t[0])
    prompt_s = float(busy.mean()) * span / len(line.requests) * data.num_replicas
    rate = prompt_rate(line, held, data.num_replicas)
    if step_s is None or rate is None:
        found.notes.append("No step time or prompt rate: whether a larger batch helps is unknown.")
        return 0.0
    queued = float((held.waiting**2).sum() / held.waiting.sum()) / data.num_replicas
    batch = max(limit.batch, 1.0)
    larger = batch + queued
    if limit.cause == "batch_cap" and limit.kv_usage_ratio:
        larger = max(batch, min(larger, batch / limit.kv_usage_ratio))
    per_sequence = 1 / rate + step.cache_ratio * step_s / max(step.batch, 1.0)
    grown = step_s + (larger - batch) * per_sequence
    tokens = float(line.output_tokens.mean())
    now = prompt_s + tokens * step_s / batch
    then = prompt_s + tokens * grown / larger
    gain = max(0.0, 1 - then / now)
    found.saw(
        "E2E that lifting the limit would save",
        gain,
        "ratio",
        "step model",
        f"engine time per request {now:.4g} s at batch {batch:.0f}, {then:.4g} s at "
        f"{larger:.0f}; prompt {prompt_s:.4g} s of it",
        limit.cause,
    )
    return gain if gain >= MIN_GAIN_RATIO else 0.0


def mean_step_s(line: Timeline, seconds: Array) -> float | None:
    """Return seconds per token after the first; None where no answer has a second token."""
    tokens = float(np.clip(line.output_tokens - 1, 0, None)[line.has_first].sum())
    return float(seconds.sum()) / tokens if tokens > 0 and seconds.sum() > 0 else None


def prompt_rate(line: Timeline, held: Load, num_replicas: int) -> float | None:
    """Return prompt tokens computed per second of one engine's prefill; None when not known."""
    from teardown.classify.phases import uncached_tokens

    seconds = float((held.prefilling > 0).mean()) * float(held.t[-1] - held.t[0])
    tokens = float(uncached_tokens(line).sum()) / num_replicas
    return tokens / seconds if seconds > 0 and tokens > 0 else None


def charge_waiting(
    ledger: Ledger,
    line: Timeline,
    waiting: Array,
    held: Load,
    limit: Limit | None,
    gain: float,
    step: Step,
    *,
    is_engine_queue: bool,
) -> dict[Entry, float]:
    """Charge `waiting` seconds; return what the engine executed meanwhile, as fractions.

    Time in which nothing executed is the front end's, except in the engine's own queue: an engine
    with a queue is busy, and the windows of execution are then estimates that leave holes.
    """
    whole = float(waiting.sum())
    if whole <= 0:
        return {}
    bound = min(1.0, gain * float(line.total.sum()) / whole) if limit else 0.0
    if limit and bound > 0:
        ledger.add("scheduling", limit.cause, waiting * bound)
    prefilling = held.integral((held.prefilling > 0).astype(np.float64))
    decoding = held.integral(((held.prefilling <= 0) & (held.decoding > 0)).astype(np.float64))
    start, end = line.sent, line.sent + waiting

    def passed(running: Array) -> Array:
        difference = np.interp(end, held.t, running) - np.interp(start, held.t, running)
        return np.asarray(difference / np.maximum(waiting, 1e-12), dtype=np.float64)

    in_prefill, in_decode = np.clip(passed(prefilling), 0, 1), np.clip(passed(decoding), 0, 1)
    busy = in_prefill + in_decode
    scale = np.where((busy > 1) | (is_engine_queue & (busy > 0)), busy, 1.0)
    in_prefill, in_decode = in_prefill / scale, in_decode / scale
    idle = np.clip(1 - in_prefill - in_decode, 0, 1)
    rest = waiting * (1 - bound)
    charges = {
        Entry("prefill", "prefill_compute"): in_prefill,
        Entry("host", "frontend"): idle,
        **{entry: in_decode * fraction for entry, fraction in step.parts.items()},
    }
    for entry, fraction in charges.items():
        ledger.add(entry.time_class, entry.cause, rest * fraction)
    return {e: float((fraction * waiting).sum() / whole) for e, fraction in charges.items()}
