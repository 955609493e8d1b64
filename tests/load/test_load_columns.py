"""The columns give the numbers of the plain formulas, whatever the run looks like."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from teardown.errors import UsageError
from teardown.load import columns, table
from teardown.load.columns import columns_of, read_columns
from teardown.load.summary import plateau_of, summarise, summarise_table
from teardown.load.table import write_requests
from teardown.records import Request, Speech, Summary
from teardown.settings import Limit, Promises
from tests.load import plain_summary

# few distinct times, so that ends, starts and window edges coincide
TIME = st.none() | st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 3.25])
COUNT = st.none() | st.integers(0, 300)
REQUESTS = st.lists(
    st.builds(
        Request,
        request_id=st.sampled_from("abcdefgh"),
        attempt=st.integers(1, 3),
        status=st.sampled_from(["ok", "ok", "error", "cut", "refused", "aborted"]),
        session=st.sampled_from(["s", "t", "u", None]),
        intended_s=TIME,
        sent_s=TIME,
        ttft_s=TIME,
        ttfo_s=TIME,
        tpot_s=TIME,
        e2e_s=TIME,
        stream_close_s=TIME,
        max_gap_s=TIME,
        prompt_tokens=COUNT,
        output_tokens=COUNT,
        cached_tokens=COUNT,
        chunk_s=st.lists(st.sampled_from([0.0, 0.5, 1.25, 2.0, 4.0]), max_size=4),
    ),
    max_size=12,
)
LIMIT = st.none() | st.sampled_from([Limit(p95=0.5), Limit(p50=1.0)])
PROMISES = st.builds(Promises, ttft_s=LIMIT, ttfo_s=LIMIT, tpot_s=LIMIT, e2e_s=LIMIT)
KINDS = st.sampled_from([(False, False), (True, False), (False, True)])
SHAPE = st.builds(
    lambda concurrency, kind: {"concurrency": concurrency, "is_open": kind[0], "is_live": kind[1]},
    st.integers(1, 4),
    KINDS,
)
SPEECH = st.none() | st.just(Speech(words_per_minute=150.0, endpointing_s=0.8))


def same(found: Summary, expected: Summary) -> None:
    """All is equal, but for the last digit of token rates: it depends on the order of adding."""
    assert found.num_by_status == expected.num_by_status
    for one, other in ((found.plateau, expected.plateau), (found.whole, expected.whole)):
        rates = one.output_tokens_per_s, other.output_tokens_per_s
        assert rates == (None, None) or rates[0] == pytest.approx(rates[1], rel=1e-12)
        assert replace(one, output_tokens_per_s=None) == replace(other, output_tokens_per_s=None)


@given(requests=REQUESTS, promises=PROMISES, shape=SHAPE, speech=SPEECH)
@settings(max_examples=300, deadline=None)
def test_columns_and_plain_formulas_agree(
    requests: list[Request], promises: Promises, shape: dict[str, Any], speech: Speech | None
) -> None:
    expected = plain_summary.summarise(requests, promises, **shape, speech=speech)
    same(summarise(requests, promises, **shape, speech=speech), expected)
    final = plain_summary.placed(plain_summary.last_attempts(requests))
    assert plateau_of(requests, **shape) == plain_summary.plateau_of(final, **shape)


@given(requests=REQUESTS, promises=PROMISES, shape=SHAPE)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_table_on_disk_gives_the_numbers_of_its_records(
    tmp_path: Path, requests: list[Request], promises: Promises, shape: dict[str, Any]
) -> None:
    path = tmp_path / "requests.parquet"
    write_requests(path, requests)
    same(
        summarise_table(path, promises, **shape),
        plain_summary.summarise(requests, promises, **shape),
    )


def long_run(num_requests: int, seed: int) -> list[Request]:
    """Return a run of several groups of rows, every fifth request sent twice, in any order."""
    draw = random.Random(seed)
    run = []
    for number in range(num_requests):
        sent_s = draw.uniform(0, 100)
        stamps = sorted(sent_s + draw.expovariate(0.5) for _ in range(draw.randrange(6)))
        run.append(
            Request(
                request_id=f"r{number}",
                status=draw.choice(["ok", "ok", "ok", "cut"]),
                sent_s=sent_s,
                ttft_s=stamps[0] - sent_s if stamps else None,
                e2e_s=stamps[-1] - sent_s if stamps else None,
                output_tokens=draw.randrange(300),
                chunk_s=stamps,
            )
        )
    again = [replace(r, attempt=2, sent_s=(r.sent_s or 0.0) + 9.0) for r in run[::5]]
    both = [*run, *again]
    draw.shuffle(both)
    return both


def test_a_run_of_many_row_groups_gives_the_numbers_of_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "GROUP_ROWS", 64)
    monkeypatch.setattr(columns, "BATCH_ROWS", 50)
    run = long_run(1000, seed=4)
    path = tmp_path / "requests.parquet"
    write_requests(path, run)
    assert pyarrow.parquet.ParquetFile(path).num_row_groups == 19
    promises = Promises(ttft_s=Limit(p95=1.0))
    expected = plain_summary.summarise(run, promises, concurrency=20, is_open=False)
    same(summarise_table(path, promises, concurrency=20, is_open=False), expected)
    assert expected.plateau.num_requests < expected.whole.num_requests
    same(summarise(run, promises, concurrency=20, is_open=False), expected)


def test_stamps_of_a_table_are_those_of_its_records(tmp_path: Path) -> None:
    path = tmp_path / "requests.parquet"
    run = long_run(300, seed=5)
    write_requests(path, run)
    (expected,) = columns_of(run).chunks()
    batches = list(read_columns(path).chunks())
    assert [batch.rows for batch in batches] == [slice(0, 300)]
    assert np.array_equal(batches[0].stamps_s, expected.stamps_s)
    assert np.array_equal(batches[0].offsets, expected.offsets)


@pytest.mark.parametrize("damage", ["missing", "no table", "cut"])
def test_what_is_no_table_of_requests_is_one_sentence(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "requests.parquet"
    if damage == "no table":
        path.write_text("hello")
    if damage == "cut":
        write_requests(path, long_run(50, seed=6))
        path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UsageError, match="cannot be read"):
        read_columns(path)
