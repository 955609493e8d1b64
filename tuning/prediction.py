"""How much a change may improve the goal metric: factors above 1 are better, intervals wide.

Two views, both from the measured run:

Amdahl. Removing a fraction f of the experienced time gives 1 / (1 - f). A fraction of the E2E that
lies before the first token is a larger fraction of the TTFT, so it is scaled by E2E / TTFT.

Closed loop (Little's law). N users wait on c slots that are always busy: E2E = N W / c, where W is
how long one request holds a slot and D, its decoding, is E2E - TTFT. With c' slots, and r times the
throughput, E2E' = E2E / r, and where the slots share evenly TTFT' = (N W - c' D) / (c r).
"""

import math
from typing import Literal, NamedTuple

from teardown.records import Estimate, Window
from tuning.context import PlanContext

Phase = Literal["before_first_token", "after_first_token", "anywhere"]

# No change is expected to be worth more than this; a larger factor is a fault of the model.
MAX_FACTOR = 20.0
# A fraction of time is never removed whole: the rest of a step has a floor.
MAX_FRACTION = 0.95
# Half of a "saves at most" is the middle of what is known about it: between nothing and all.
LIKELY_PART = 0.5
# A request spends at least this much of its slot on its prompt (a short prompt before a long
# answer); keeps a run whose means do not fit the closed loop from predicting wonders.
MIN_PREFILL_PART = 0.1
# The queueing view promised at most 1.8 where 2.6 was measured (prompt cache on the embedded
# engine, 2026-11): a median falls further than the mean when the queue empties between rounds.
MODEL_ERROR = 1.5
# Between no gain and slots that share evenly. Eight slots for one on the embedded engine: 1.5
# and 2.8 times where even sharing says 3.6 and 6 (prompt cache off and on, measured 2026-11).
ORDERED_EXPONENT = 0.5


class Means(NamedTuple):
    """Mean times of one request of the measured run, seconds; decode_s is from the first token."""

    ttft_s: float
    e2e_s: float
    decode_s: float


class Hold(NamedTuple):
    """How long a request holds its slot while all slots are busy, and how much of it is prefill."""

    held_s: float
    prefill_s: float


def means(context: PlanContext) -> Means | None:
    """Return the mean times of the measured run; None where it has none."""
    if context.run.summary is None:
        return None
    for window in (context.run.summary.plateau, context.run.summary.whole):
        found = _means_of(context, window)
        if found is not None:
            return found
    return None


def _means_of(context: PlanContext, window: Window) -> Means | None:
    ttft, e2e, tpot = window.ttft_s.mean, window.e2e_s.mean, window.tpot_s.mean
    if ttft is None or e2e is None or not 0 < ttft <= e2e:
        return None
    decode = e2e - ttft if tpot is None else tpot * max(context.output_tokens_p50 - 1, 0)
    return Means(ttft, e2e, min(decode, e2e))


def hold(context: PlanContext, times: Means) -> Hold:
    """Return W and the prefill in it, by Little's law: W = c E2E / N for N users on c slots."""
    users = max(context.concurrency, 1)
    held_s = min(context.num_slots or 1, users) * times.e2e_s / users
    return Hold(held_s, max(held_s - times.decode_s, MIN_PREFILL_PART * held_s))


def estimate(low: float, value: float, high: float, n: int, method: str) -> Estimate:
    """Return an ordered, bounded estimate of a factor."""
    low, value, high = (min(max(x, 1 / MAX_FACTOR), MAX_FACTOR) for x in (low, value, high))
    low, high = min(low, value), max(high, value)
    return Estimate(
        value=round(value, 3), low=round(low, 3), high=round(high, 3), n=n, method=method
    )


def amdahl(
    context: PlanContext,
    fraction: float,
    phase: Phase,
    because: str,
    *,
    worst: float = 1.0,
    likely_part: float = LIKELY_PART,
) -> Estimate:
    """Return the factor on the goal from removing up to `fraction` of the experienced time.

    worst: the factor in the bad case, where the change costs more than it saves.
    """
    scaled = min(max(fraction, 0.0) * _leverage(context, phase), MAX_FRACTION)
    value = 1 / (1 - scaled * likely_part)
    method = (
        f"Amdahl: {because}; up to {fraction:.0%} of the experienced time, {scaled:.0%} of "
        f"{context.goal.metric}; the value takes {likely_part:.0%} of that"
    )
    return estimate(worst, value, 1 / (1 - scaled), 1, method)


def _leverage(context: PlanContext, phase: Phase) -> float:
    """Return by how much a fraction of E2E grows when it is seen as a fraction of the goal."""
    metric, times = context.goal.metric, means(context)
    if metric == "ttft_p50":
        if phase == "after_first_token":
            return 0.0
        if phase == "before_first_token" and times is not None:
            return times.e2e_s / times.ttft_s
    if metric == "tpot_p50":
        if phase == "before_first_token":
            return 0.0
        if phase == "after_first_token" and times is not None and times.decode_s > 0:
            return times.e2e_s / times.decode_s
    return 1.0


def more_slots(
    context: PlanContext, slots: int, throughput: tuple[float, float, float]
) -> Estimate:
    """Return the factor on the goal from running `slots` requests at once (closed-loop view).

    throughput: low, likely and high ratio of tokens per second after to before.
    """
    times, users = means(context), context.concurrency
    now, then = min(context.num_slots or 1, users), min(slots, users)
    low, likely, high = throughput
    if context.goal.metric == "tpot_p50":
        stretch = now / then
        method = f"{then} requests share the steps that {now} shared: r·{now}/{then}"
        return estimate(low * stretch, likely * stretch, high * stretch, 1, method)
    if times is None and context.cause("batch_cap"):
        because = "the diagnosis names batch_cap"
        return amdahl(context, context.cause("batch_cap"), "before_first_token", because, worst=low)
    if context.goal.metric != "ttft_p50" or times is None:
        method = f"closed loop of {users} users: the throughput ratio r of {then} to {now} slots"
        return estimate(low, likely, high, 1, method)
    held = hold(context, times)
    shared = _even_ttft_s(held, users, now, now) / _even_ttft_s(held, users, now, then)
    method = (
        f"closed loop: {users} users on {now} slots, each held {held.held_s:.3g} s, "
        f"{held.prefill_s:.3g} s of it prefill; {then} slots that share evenly make TTFT "
        f"{shared:.3g}·r times shorter, r from {low:.2f} to {high:.2f}; the value is the root of "
        "that, because prompts are taken in order and not shared evenly"
    )
    ends = sorted([min(low, shared * low), shared * high])
    return estimate(ends[0], (shared * likely) ** ORDERED_EXPONENT, ends[1], 1, method)


def _even_ttft_s(held: Hold, users: int, now: int, then: int) -> float:
    """Return TTFT with `then` slots at unchanged throughput: waiting, then the stretched prefill.

    E2E stays N W / c; the decoding in it is stretched by c' / c.
    """
    decode_s = held.held_s - held.prefill_s
    return (users * held.held_s - then * decode_s) / now


def less_prefill(context: PlanContext, saved_ratio: float, likely_part: float) -> Estimate:
    """Return the factor on the goal from not computing `saved_ratio` of the prompt tokens.

    With the slots busy all the time, every user waits for the prefills of the others too: a
    request holds its slot for W = c E2E / N, of which W - D is prefill.
    """
    times = means(context)
    miss = context.cause("prefix_cache_miss")
    if times is None:
        fraction = miss or context.share("prefill") * saved_ratio
        return amdahl(context, fraction, "before_first_token", "prompt tokens computed again")
    held = hold(context, times)

    def factor(part: float) -> float:
        left = 1 - held.prefill_s / held.held_s * saved_ratio * part
        if context.goal.metric == "ttft_p50":
            after_s = times.e2e_s * left - times.decode_s
            return times.ttft_s / max(after_s, times.ttft_s / MAX_FACTOR)
        return 1 / max(left, 1 / MAX_FACTOR)

    if context.goal.metric == "tpot_p50":
        return unsupported(1.0, 1.0, 1.1, "prefill comes before the tokens that are counted")
    method = (
        f"closed loop: a request holds its slot {held.held_s:.3g} s, {held.prefill_s:.3g} s of it "
        f"prefill; {saved_ratio:.0%} of prompt tokens need not be computed again; the value takes "
        f"{likely_part:.0%} of that"
    )
    high = max(factor(1.0), 1 / (1 - min(miss, MAX_FRACTION)))
    return estimate(1.0, factor(likely_part), high * MODEL_ERROR, 1, method)


def unsupported(low: float, value: float, high: float, because: str) -> Estimate:
    """Return a prediction that the diagnosis does not support; n = 0 says so."""
    return estimate(low, value, high, 0, f"not from the measured run: {because}")


def both(first: Estimate, second: Estimate) -> Estimate:
    """Return the factor of two changes together: at best their product, likely its root mean.

    The two may remove the same time, so the value lies between the larger one and the product.
    """
    larger = max(first.value, second.value)
    product = max(first.value * second.value, larger)
    lows, highs = (
        [e.low or e.value for e in (first, second)],
        [e.high or e.value for e in (first, second)],
    )
    return estimate(
        min(*lows, 1.0),
        math.sqrt(larger * product),
        math.prod(highs),
        min(first.n, second.n),
        "the two changes may remove the same time: geometric mean of the larger factor and the "
        "product",
    )
