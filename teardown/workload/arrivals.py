"""When requests arrive: intended times in seconds, drawn whole before the run.

Every pattern is a unit process (mean interval 1) that is stretched by the rate, so two rates of one
seed differ in pace alone.
"""

import math
import random
from collections.abc import Callable, Iterator

from teardown.workload_settings import WorkloadSettings


def interval(load: WorkloadSettings, rate_per_s: float) -> Callable[[random.Random], float]:
    """Return how intervals between arrivals at `rate_per_s` are drawn; their mean is 1/rate.

    gamma: shape k = `burstiness`, so the coefficient of variation is 1/sqrt(k); k = 1 is Poisson.
    """
    if load.arrivals == "constant":
        return lambda draw: 1.0 / rate_per_s
    if load.arrivals == "gamma":
        shape = load.burstiness
        return lambda draw: draw.gammavariate(shape, 1.0 / (shape * rate_per_s))
    return lambda draw: draw.expovariate(rate_per_s)


def arrival_times(load: WorkloadSettings, rate_per_s: float, number: int) -> list[float]:
    """Return `number` times at a steady rate, the first one 0."""
    draw, next_interval = random.Random(load.seed), interval(load, rate_per_s)
    at_s = 0.0
    times: list[float] = []
    for _ in range(number):
        times.append(round(at_s, 6))
        at_s += next_interval(draw)
    return times


def ramp_times(
    load: WorkloadSettings, from_per_s: float, to_per_s: float, over_s: float
) -> list[float]:
    """Return the times of a rate that goes evenly from one value to another.

    The rate is a + (b - a) t/T, its integral L(t) = a t + (b - a) t²/(2T): a unit process s is sent
    at L⁻¹(s) = 2 s / (a + sqrt(a² + 2 (b - a) s/T)). There are about T (a + b)/2 requests.
    """
    total = over_s * (from_per_s + to_per_s) / 2
    slope = (to_per_s - from_per_s) / over_s
    times: list[float] = []
    for unit in _unit_times(load):
        if unit >= total:
            return times
        root = math.sqrt(max(from_per_s**2 + 2 * slope * unit, 0.0))
        times.append(round(2 * unit / (from_per_s + root) if unit else 0.0, 6))
    return times


def _unit_times(load: WorkloadSettings) -> Iterator[float]:
    draw, next_interval = random.Random(load.seed), interval(load, 1.0)
    at = 0.0
    while True:
        yield at
        at += next_interval(draw)
