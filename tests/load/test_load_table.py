from pathlib import Path
from typing import get_args

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from teardown.errors import UsageError
from teardown.load.table import COLUMNS, read_requests, write_requests
from teardown.records import Request, ServerTimings
from teardown.records.request import Status

REAL = st.none() | st.floats(allow_nan=False, allow_infinity=False)
WHOLE = st.none() | st.integers(0, 2**40)
TEXT = st.none() | st.text(st.characters(codec="utf-8"), max_size=12)
TIMINGS = st.builds(ServerTimings, prefill_s=REAL, decode_s=REAL, decode_tokens=WHOLE)
REQUESTS = st.builds(
    Request,
    request_id=st.text(st.characters(codec="utf-8"), max_size=8),
    status=st.sampled_from(get_args(Status)),
    session=TEXT,
    sent_s=REAL,
    ttft_s=REAL,
    output_tokens=WHOLE,
    output_tokens_source=st.sampled_from([None, "usage", "tokenizer"]),
    chunk_s=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5),
    stamp_width_s=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5),
    error=TEXT,
    server=st.none() | TIMINGS,
    reasons=st.dictionaries(st.sampled_from(["ttft_s", "e2e_s"]), st.text(max_size=8)),
)


@given(st.lists(REQUESTS, max_size=4))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None
)
def test_requests_are_the_same_when_read_back(tmp_path: Path, requests: list[Request]) -> None:
    path = tmp_path / "requests.parquet"
    write_requests(path, requests)
    assert read_requests(path) == requests
    assert [entry.name for entry in tmp_path.iterdir()] == ["requests.parquet"]


def test_every_field_of_a_request_has_a_column() -> None:
    assert list(COLUMNS) == list(Request.__dataclass_fields__)


def test_another_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), path)
    with pytest.raises(UsageError, match="schema is ''"):
        read_requests(path)


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.parquet"
    path.write_text("hello")
    with pytest.raises(UsageError, match="cannot be read"):
        read_requests(path)
