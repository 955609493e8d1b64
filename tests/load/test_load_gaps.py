import itertools
import random
import statistics
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teardown.load.columns import columns_of, read_columns
from teardown.load.gaps import RunningMedian, median_gap_s
from teardown.load.table import write_requests
from teardown.records import Request

STAMPS = st.lists(st.sampled_from([0.0, 0.5, 1.25, 2.0, 4.0]), max_size=4).map(sorted)
RUN = st.lists(st.tuples(st.sampled_from(["ok", "cut"]), STAMPS), max_size=8)


@given(RUN)
def test_the_median_gap_is_that_of_all_gaps_of_complete_answers(
    run: list[tuple[str, list[float]]],
) -> None:
    requests = [
        Request(request_id=str(n), status=status, chunk_s=stamps)  # type: ignore[arg-type]
        for n, (status, stamps) in enumerate(run)
    ]
    gaps = [
        late - early
        for status, stamps in run
        for early, late in itertools.pairwise(stamps)
        if status == "ok" and late > early
    ]
    expected = statistics.median(gaps) if gaps else None
    assert median_gap_s(columns_of(requests)) == expected


def test_the_median_gap_of_a_table_is_that_of_its_records(tmp_path: Path) -> None:
    draw = random.Random(1)
    run = [
        Request(request_id=str(n), status="ok", chunk_s=sorted(draw.random() for _ in range(n % 7)))
        for n in range(50)
    ]
    write_requests(tmp_path / "t.parquet", run)
    assert median_gap_s(read_columns(tmp_path / "t.parquet")) == median_gap_s(columns_of(run))


@pytest.mark.parametrize("scale", [1e-7, 0.025, 40.0])
def test_the_median_of_too_many_to_keep_is_right_to_one_in_a_hundred_thousand(scale: float) -> None:
    values = np.random.default_rng(3).lognormal(0.0, 1.0, 30_001) * scale
    median = RunningMedian(exact_up_to=2_000)
    for part in np.array_split(values, 20):
        median.add(part)
    assert median.value == pytest.approx(float(np.median(values)), rel=1e-5)


def test_equal_numbers_have_themselves_as_their_median() -> None:
    median = RunningMedian(exact_up_to=10)
    median.add(np.full(1000, 0.025))
    assert median.value == pytest.approx(0.025, rel=1e-5)


def test_nothing_has_no_median() -> None:
    assert RunningMedian().value is None
