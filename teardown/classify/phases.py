"""Divide time to first token into frontend, waiting and the request's own prefill.

llama.cpp answers with each request's own prefill time; vLLM gives sums over requests on its metrics
page (queue: first queued to first scheduled; prefill: from there to the first token). What an
engine's own clock does not cover of the client's TTFT is its front end, or the network.
"""

from typing import Literal, NamedTuple

import numpy as np

from teardown.classify.counters import Seen
from teardown.classify.findings import Findings
from teardown.classify.timeline import Array, Timeline

# Server timings count where nearly every request has them; a few lost last chunks are no reason
# to throw the others away.
MIN_TIMED_RATIO = 0.9
# More requests on the metrics page than we sent: someone else's traffic is in the sums.
MAX_FOREIGN_RATIO = 1.1
NUM_FITTING_ROUNDS = 3


class Phases(NamedTuple):
    """Seconds per request; `executed` is when the engine began to work on it (run clock)."""

    frontend: Array
    waiting: Array
    prefill: Array
    executed: Array
    source: Literal["server timings", "metrics", "client"]


def phases(line: Timeline, seen: Seen | None, found: Findings) -> Phases:
    """Return the phases of every request, from the best source there is."""
    timed = _timed_prefill(line)
    if timed is not None:
        return _given(line, timed, "server timings", found)
    if seen is not None and seen.rise.prefill_s is not None:
        count = seen.rise.requests or len(line.requests)
        if count > MAX_FOREIGN_RATIO * len(line.requests):
            found.doubt(0.8, "the metrics page counts requests that are not of this run")
        mean = _by_tokens(line, seen.rise.prefill_s / count)
        if seen.rise.queue_s is None:
            return _given(line, mean, "metrics", found)
        return _queued(line, mean, seen.rise.queue_s / count * len(line.requests), found)
    found.notes.append(
        "Neither the answers nor a metrics page say how long requests waited: time to first token "
        "cannot be divided into waiting and prefill."
    )
    nothing = np.zeros_like(line.total)
    return Phases(nothing, nothing, nothing, line.sent, "client")


def uncached_tokens(line: Timeline) -> Array:
    """Return the prompt tokens of each request that the engine had to compute, as far as known."""
    prompt = np.nan_to_num(line.prompt_tokens)
    return np.maximum(prompt - np.nan_to_num(line.cached_tokens), 0.0)


def _timed_prefill(line: Timeline) -> Array | None:
    values = np.array(
        [
            np.nan if r.server is None or r.server.prefill_s is None else r.server.prefill_s
            for r in line.requests
        ]
    )
    known = ~np.isnan(values)
    if known.mean() < MIN_TIMED_RATIO:
        return None
    return np.where(known, values, np.mean(values[known]))


def _by_tokens(line: Timeline, mean_s: float) -> Array:
    """Spread a mean prefill time over the requests by the tokens they had computed."""
    tokens = uncached_tokens(line)
    if tokens.sum() <= 0:
        return np.full_like(line.total, mean_s)
    return np.asarray(tokens / tokens.mean() * mean_s, dtype=np.float64)


def _given(
    line: Timeline, prefill: Array, source: Literal["server timings", "metrics"], found: Findings
) -> Phases:
    waiting = np.clip(line.ttft - prefill, 0.0, None)
    _say(line, waiting, prefill, waiting * 0, source, found)
    return Phases(
        waiting * 0, waiting, prefill, line.first - np.minimum(prefill, line.ttft), source
    )


def _queued(line: Timeline, prefill: Array, queue_sum: float, found: Findings) -> Phases:
    prefill = _within_ttft(prefill, line.ttft)
    rest = line.ttft - prefill
    # sums are known, rows are not: both parts of what is not prefill go by the same proportions
    queued_ratio = min(queue_sum / rest.sum(), 1.0) if rest.sum() > 0 else 0.0
    waiting, frontend = rest * queued_ratio, rest * (1 - queued_ratio)
    _say(line, waiting, prefill, frontend, "metrics", found)
    return Phases(frontend, waiting, prefill, line.first - prefill, "metrics")


def _within_ttft(prefill: Array, ttft: Array) -> Array:
    """Return the estimates with none above its time to first token, their sum kept if it fits.

    What is cut off a row goes to the others in proportion; three rounds leave below a percent.
    """
    whole = min(float(prefill.sum()), float(ttft.sum()))
    fitted = np.minimum(prefill, ttft)
    for _round in range(NUM_FITTING_ROUNDS):
        if fitted.sum() > 0:
            fitted = np.minimum(fitted * (whole / fitted.sum()), ttft)
    return fitted


def _say(
    line: Timeline, waiting: Array, prefill: Array, frontend: Array, source: str, found: Findings
) -> None:
    whole = line.total.sum()
    for name, seconds, supports in (
        ("waiting before execution", waiting, "scheduling"),
        ("own prefill", prefill, "prefill"),
        ("front end and network before the queue", frontend, "host"),
    ):
        found.saw(
            name,
            float(seconds.mean()),
            "s",
            source,
            f"{seconds.sum() / whole:.0%} of experienced time, mean per request",
            supports,
        )
