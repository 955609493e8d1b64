"""What a stack carries, found against servers whose capacity is known beforehand."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teardown.bisection import Bisection
from teardown.errors import UsageError
from teardown.records import Capacity, read
from teardown.steps import measure_step
from tests.fakes.engine import FakeEngine
from tests.fakes.folders import servers, write_folder


def search(capacity: float, first: float, precision: float, most: float | None = None) -> Bisection:
    found = Bisection(first, precision_ratio=precision, most=most)
    while (rate := found.next_rate()) is not None:
        found.tell(rate, "kept" if rate <= capacity else "missed", "")
    return found


@given(
    capacity=st.floats(0.1, 1000),
    first=st.floats(0.1, 1000),
    precision=st.floats(0.05, 0.5),
)
def test_a_search_encloses_the_capacity_or_says_why_not(
    capacity: float, first: float, precision: float
) -> None:
    found = search(capacity, first, precision)
    assert found.low is None or found.low <= capacity
    assert found.high is None or found.high > capacity
    if found.reason is None:
        assert found.low is not None
        assert found.high is not None
        assert found.high <= found.low * (1 + precision) * 1.001


def test_a_search_stops_at_the_rate_that_the_client_allows() -> None:
    found = search(100, 4, 0.1, most=10)
    assert (found.low, found.high) == (10, None)
    assert "limits" in (found.reason or "")


def test_a_rate_that_cannot_be_judged_ends_the_search_with_its_reason() -> None:
    found = Bisection(4, precision_ratio=0.1)
    found.tell(4, "kept", "")
    found.tell(8, "unjudged", "client_limited: late")
    assert found.next_rate() is None
    assert (found.low, found.high) == (4, None)
    assert "client_limited" in (found.reason or "")


def test_the_capacity_of_four_servers_of_100_ms_is_40_a_second(tmp_path: Path) -> None:
    """Deterministic arrivals: no wait up to 4 / 0.1 s = 40 a second, a growing one above it."""
    with FakeEngine(servers(4, 0.1, ["one", " two"])) as fake:
        load = {
            "kind": "capacity",
            "rate_per_s": 30,
            "arrivals": "constant",
            "requests": 60,
            "duration_s": 0.1,
            "precision_ratio": 0.2,
            "synthetic": {"prompt_tokens": 40, "output_tokens": 2},
        }
        promises = {"ttft_s": {"p95": 0.1}, "attainment": 0.9}
        engagement = write_folder(tmp_path, fake, load, promises=promises)
        runs = measure_step(tmp_path, {})
    [result] = read(Capacity, engagement.capacity_path).results
    assert result.is_complete
    assert result.low is not None
    assert result.high is not None
    assert result.low <= 40 < result.high <= result.low * 1.2
    assert [level.asked for level in result.levels] == [30, 60, 42.43, 35.68]
    assert [level.outcome for level in result.levels] == ["kept", "missed", "missed", "kept"]
    assert result.limiter is None
    assert result.no_limiter
    assert len({run.salt for run in runs}) == len(runs)
    assert {level.run for level in result.levels} == set(engagement.run_ids())


def test_a_capacity_needs_a_promise_and_enough_requests(tmp_path: Path) -> None:
    with FakeEngine(servers(4, 0.1, ["one", " two"])) as fake:
        load = {"kind": "capacity", "rate_per_s": 30, "synthetic": {"prompt_tokens": 40}}
        write_folder(tmp_path, fake, load)
        with pytest.raises(UsageError, match="promises"):
            measure_step(tmp_path, {})
        few = load | {"requests": 20, "duration_s": 0.1}
        write_folder(tmp_path, fake, few, promises={"ttft_s": {"p95": 1}, "attainment": 0.95})
        with pytest.raises(UsageError, match="20 `requests` a level cannot show"):
            measure_step(tmp_path, {})
