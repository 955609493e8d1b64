"""Prompt tokens that a prefix cache served, against those that it could have served."""

import numpy as np

from teardown.classify.counters import Seen
from teardown.classify.data import RunData
from teardown.classify.findings import Findings
from teardown.classify.timeline import Timeline

# A gap of a fifth of all prompt tokens is worth a change; block rounding alone is below 0.1.
MIN_MISSED_RATIO = 0.2
# DEFINITIONS.md, validity `warm_cache`: warn at 2 % of prompt tokens unexplained.
MAX_UNEXPLAINED_RATIO = 0.02


def cached_ratio(line: Timeline, seen: Seen | None) -> float | None:
    """Return the fraction of prompt tokens served from cache, by the answers, else the metrics."""
    known = ~np.isnan(line.cached_tokens) & ~np.isnan(line.prompt_tokens)
    if len(known) and known.all() and line.prompt_tokens.sum() > 0:
        return float(line.cached_tokens.sum() / line.prompt_tokens.sum())
    rise = seen.rise if seen else None
    if rise is None or rise.cached_tokens is None or not rise.prompt_tokens:
        return None
    return min(rise.cached_tokens / rise.prompt_tokens, 1.0)


def missed_work_ratio(data: RunData, line: Timeline, seen: Seen | None, found: Findings) -> float:
    """Return the fraction of computed prompt tokens that a working cache would have saved.

    0 unless the gap between potential and actual is at least MIN_MISSED_RATIO of prompt tokens.
    """
    actual, potential = cached_ratio(line, seen), data.reusable_tokens_ratio
    if actual is not None:
        found.saw("prompt tokens from cache", actual, "ratio", "answers or metrics", "served")
    if potential is not None:
        found.saw("prompt tokens that repeat", potential, "ratio", "prompts", "could be served")
    if actual is None or potential is None:
        if actual is not None and actual > MAX_UNEXPLAINED_RATIO:
            found.notes.append(
                f"{actual:.0%} of prompt tokens came from a cache; whether this run's own prompts "
                "explain that is not known."
            )
        return 0.0
    if actual - potential > MAX_UNEXPLAINED_RATIO:
        found.notes.insert(
            0,
            f"warm_cache: {actual - potential:.0%} of prompt tokens came from a cache that an "
            "earlier run had filled; a cold run does more prefill than this one shows.",
        )
        found.doubt(0.8, "the prefix cache was warm from before the run")
    missed = potential - actual
    if missed < MIN_MISSED_RATIO or actual >= 1:
        return 0.0
    found.saw(
        "prompt tokens computed again",
        missed,
        "ratio",
        "prompts, answers or metrics",
        "of all prompt tokens had been computed before in this run",
        "prefix_cache_miss",
    )
    return missed / (1 - actual)
