import itertools
import random

import pytest

from teardown.load.lags import Lags
from teardown.load.record import percentile


def test_few_lags_are_all_kept() -> None:
    lags = Lags()
    lags.extend([0.3, 0.1])
    lags.extend([])
    lags.extend([0.2])
    assert list(lags.sample) == [0.3, 0.1, 0.2]
    assert (lags.num, lags.max) == (3, 0.3)


def test_every_kth_lag_is_kept_however_they_come() -> None:
    draw = random.Random(1)
    lags, sent = Lags(kept=64), 0
    while sent < 1000:
        count = draw.randrange(1, 40)
        lags.extend([float(n) for n in range(sent, sent + count)])
        sent += count
    kept = list(lags.sample)
    steps = {late - early for early, late in itertools.pairwise(kept)}
    assert len(steps) == 1
    assert 32 <= len(kept) <= 64
    assert kept[0] == 0.0
    assert (lags.num, lags.max) == (sent, sent - 1)


def test_percentiles_of_what_is_kept_are_those_of_all() -> None:
    draw = random.Random(2)
    values = [draw.expovariate(1000) for _ in range(100_000)]
    lags = Lags(kept=20_000)
    for first in range(0, len(values), 160):
        lags.extend(values[first : first + 160])
    for fraction in (0.5, 0.99):
        assert percentile(lags.sample, fraction) == pytest.approx(
            percentile(values, fraction), rel=0.05
        )
    assert lags.max == max(values)
