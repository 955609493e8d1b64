"""Statistics of DEFINITIONS.md: percentiles that are withheld when thin, intervals, run pairs."""

import math
from collections.abc import Sequence

from teardown.records.estimate import Estimate, Quantiles

# Fewest samples for a percentile: two samples beyond it at 99 % (DEFINITIONS.md, "A run").
FEWEST = {"p50": 11, "p90": 64, "p95": 130, "p99": 662}
RANK = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}
# A claim needs at least this many interleaved pairs (DEFINITIONS.md, "Comparing").
FEWEST_PAIRS = 4
CONFIDENCE = 0.95


def quantile(ordered: Sequence[float], q: float) -> float:
    """Return the q-quantile of an ascending, non-empty sequence by linear interpolation."""
    position = q * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def quantiles(samples: Sequence[float], num_failed: int = 0) -> Quantiles:
    """Return the percentiles of `samples`, each with its order-statistic interval.

    `num_failed` requests stand above every sample: a server that drops its slow requests does not
    look faster. A percentile that lies among them is withheld; the mean is that of the samples.
    Requests of one run are correlated, so the interval speaks of this run, not of the next one.
    """
    measured = sorted(samples)
    ordered = [*measured, *[math.inf] * num_failed]
    n = len(ordered)
    found: dict[str, Estimate | None] = {}
    withheld: dict[str, str] = {}
    for name, q in RANK.items():
        if n < FEWEST[name]:
            found[name] = None
            withheld[name] = f"n too small: {n} of {FEWEST[name]} samples"
            continue
        if math.ceil(q * (n - 1)) >= len(measured):
            found[name] = None
            withheld[name] = f"{num_failed} of {n} requests failed: it lies among them"
            continue
        low, high = order_statistic_interval(ordered, q)
        found[name] = Estimate(
            value=quantile(ordered, q),
            low=low,
            high=None if high == math.inf else high,
            n=n,
            method="order statistics",
        )
    mean = math.fsum(measured) / len(measured) if measured else None
    return Quantiles(n=len(measured), mean=mean, withheld=withheld, **found)


def order_statistic_interval(
    ordered: Sequence[float], q: float
) -> tuple[float | None, float | None]:
    """Return the distribution-free 95 % interval of a quantile; an open end is None.

    The number of samples below the quantile is binomial(n, q); Hahn & Meeker, Statistical
    Intervals, 1991, section 5.2.
    """
    from scipy.stats import binom

    n = len(ordered)
    tail = (1 - CONFIDENCE) / 2
    low_rank = int(binom.ppf(tail, n, q))  # P(count < rank) <= tail
    high_rank = int(binom.ppf(1 - tail, n, q)) + 1
    low = ordered[low_rank - 1] if low_rank >= 1 else None
    high = ordered[high_rank - 1] if high_rank <= n else None
    return low, high


def proportion(hits: int, n: int) -> Estimate | None:
    """Return hits/n with its Wilson score interval; None where n is 0."""
    if n == 0:
        return None
    z = 1.959964
    p = hits / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return Estimate(
        value=p,
        low=max(0.0, centre - half),
        high=min(1.0, centre + half),
        n=n,
        method="Wilson score",
    )


def ratio_of_pairs(pairs: Sequence[tuple[float, float]], better: str) -> Estimate | None:
    """Return the improvement factor over run pairs (before, after), above 1 = better.

    Ratio of means; interval = t on the logs of the pair ratios. Below 4 pairs the interval is
    withheld: one pair makes no claim. `better` is "higher" or "lower". None without usable pairs.
    """
    usable = [(b, a) for b, a in pairs if b > 0 and a > 0]
    if not usable:
        return None
    before = math.fsum(b for b, _ in usable) / len(usable)
    after = math.fsum(a for _, a in usable) / len(usable)
    value = after / before if better == "higher" else before / after
    n = len(usable)
    if n < FEWEST_PAIRS:
        return Estimate(
            value=value,
            low=None,
            high=None,
            n=n,
            method=f"ratio of means; no interval below {FEWEST_PAIRS} pairs",
        )
    logs = [math.log(a / b) if better == "higher" else math.log(b / a) for b, a in usable]
    low, high = t_interval(logs)
    return Estimate(
        value=value,
        low=math.exp(low),
        high=math.exp(high),
        n=n,
        method="ratio of means; t on the logs of the pair ratios",
    )


def t_interval(samples: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return Student's t interval of the mean of at least two samples."""
    from scipy.stats import t

    n = len(samples)
    mean = math.fsum(samples) / n
    variance = math.fsum((s - mean) ** 2 for s in samples) / (n - 1)
    half = float(t.ppf(0.5 + confidence / 2, n - 1)) * math.sqrt(variance / n)
    return mean - half, mean + half


def mean_of_runs(samples: Sequence[float]) -> Estimate | None:
    """Return the mean over runs with its t interval; no interval for a single run."""
    if not samples:
        return None
    mean = math.fsum(samples) / len(samples)
    if len(samples) < 2:
        return Estimate(value=mean, low=None, high=None, n=1, method="one run")
    low, high = t_interval(samples)
    return Estimate(value=mean, low=low, high=high, n=len(samples), method="t over runs")


def slope_p_value(times: Sequence[float], values: Sequence[float]) -> tuple[float, float] | None:
    """Return slope per second and its two-sided p-value by Theil-Sen and Kendall's tau.

    None below 8 points or where all times are equal. Robust against single outliers.
    """
    from scipy.stats import kendalltau, theilslopes

    if len(times) < 8 or max(times) == min(times) or max(values) == min(values):
        return None
    slope = theilslopes(values, times)[0]
    return float(slope), float(kendalltau(times, values).pvalue)
