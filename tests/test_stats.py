"""Statistics, checked by simulation: coverage of intervals, false claims under A/A."""

import math
import random

import pytest

from teardown.stats import (
    FEWEST,
    mean_of_runs,
    proportion,
    quantiles,
    ratio_of_pairs,
    slope_p_value,
)


def test_a_percentile_with_too_few_samples_is_withheld_with_its_reason() -> None:
    found = quantiles([1.0] * 50)
    assert found.p50 is not None
    assert found.p99 is None
    assert found.withheld["p99"] == f"n too small: 50 of {FEWEST['p99']} samples"


def test_no_sample_at_all_gives_no_number() -> None:
    found = quantiles([])
    assert found.n == 0
    assert found.mean is None
    assert found.p50 is None


def test_the_interval_of_the_median_covers_it_nineteen_times_in_twenty() -> None:
    draw = random.Random(1)
    covered = 0
    for _ in range(400):
        found = quantiles([draw.lognormvariate(0, 1) for _ in range(40)]).p50
        assert found is not None and found.low is not None and found.high is not None
        covered += found.low <= 1.0 <= found.high
    assert covered >= 0.92 * 400


def test_equal_stacks_are_rarely_told_apart() -> None:
    draw = random.Random(2)
    claims = 0
    for _ in range(600):
        pairs = [(draw.lognormvariate(0, 0.1), draw.lognormvariate(0, 0.1)) for _ in range(4)]
        found = ratio_of_pairs(pairs, "lower")
        assert found is not None
        claims += found.excludes_one
    assert claims <= 0.08 * 600


def test_the_interval_of_a_ratio_covers_the_truth() -> None:
    draw = random.Random(3)
    covered = 0
    for _ in range(400):
        pairs = []
        for _ in range(5):
            level = draw.lognormvariate(0, 0.5)  # the machine drifts between pairs
            pairs.append((level * draw.lognormvariate(0, 0.05), level / 2))
        found = ratio_of_pairs(pairs, "lower")
        assert found is not None and found.low is not None and found.high is not None
        covered += found.low <= 2.0 <= found.high
    assert covered >= 0.92 * 400


def test_fewer_than_four_pairs_make_no_claim() -> None:
    found = ratio_of_pairs([(2.0, 1.0)] * 3, "lower")
    assert found is not None
    assert found.value == pytest.approx(2.0)
    assert found.low is None
    assert not found.excludes_one


def test_an_improvement_is_above_one_whichever_way_is_better() -> None:
    lower, higher = (ratio_of_pairs([(2.0, 1.0)] * 4, way) for way in ("lower", "higher"))
    assert lower is not None and higher is not None
    assert lower.value == pytest.approx(2.0)
    assert higher.value == pytest.approx(0.5)


def test_the_wilson_interval_stays_within_zero_and_one() -> None:
    for hits, n in ((0, 5), (5, 5), (3, 7)):
        found = proportion(hits, n)
        assert found is not None and found.low is not None and found.high is not None
        assert 0 <= found.low <= hits / n <= found.high <= 1
    assert proportion(0, 0) is None


def test_one_run_has_a_mean_and_no_interval() -> None:
    found = mean_of_runs([3.0])
    assert found is not None
    assert (found.value, found.low, found.n) == (3.0, None, 1)
    assert mean_of_runs([]) is None


def test_a_trend_is_told_from_noise() -> None:
    draw = random.Random(4)
    times = [float(i) for i in range(40)]
    rising = slope_p_value(times, [0.1 * t + draw.gauss(0, 0.3) for t in times])
    flat = slope_p_value(times, [draw.gauss(0, 0.3) for _ in times])
    assert rising is not None and flat is not None
    assert rising[0] == pytest.approx(0.1, abs=0.03)
    assert rising[1] < 0.001 < flat[1]
    assert slope_p_value([1.0, 2.0], [1.0, 2.0]) is None
    assert math.isfinite(rising[0])
