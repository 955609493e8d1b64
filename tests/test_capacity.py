"""What a stack carries, found against servers whose capacity is known beforehand."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teardown import capacity as module
from teardown.bisection import Bisection
from teardown.capacity import is_measured, judge, measure_workload, result_text
from teardown.engagement import Engagement
from teardown.errors import UsageError
from teardown.measure import Job
from teardown.records import (
    Attribution,
    Capacity,
    Estimate,
    Quantiles,
    Run,
    Stack,
    Summary,
    Validity,
    ValidityReason,
    Window,
    read,
    to_json,
)
from teardown.settings import Settings, parse_settings
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


def quantiles_of_nothing() -> Quantiles:
    return Quantiles(n=0, mean=None, p50=None, p90=None, p95=None, p99=None, withheld={})


def run_of(kept: Estimate | None, invalid: tuple[str, ...] = (), name: str = "r1") -> Run:
    """A run with an attainment, or one that is invalid for the reasons of `invalid`."""
    reasons = [
        ValidityReason(
            code=code, level="invalid", measure="", value=1.0, warn=0.0, invalid=0.0, text="x"
        )
        for code in invalid
    ]
    empty = quantiles_of_nothing()
    window = Window(
        start_s=0.0,
        end_s=1.0,
        num_requests=1,
        num_failed=0,
        requests_per_s=None,
        output_tokens_per_s=None,
        prompt_tokens=0,
        cached_tokens=None,
        output_tokens=0,
        ttft_s=empty,
        tpot_s=empty,
        e2e_s=empty,
        client_wait_s=empty,
        max_gap_s=empty,
        attainment=kept,
        goodput_per_s=None,
    )
    return Run(
        run=name,
        stack="before",
        workload="w",
        regime="cold",
        salt="s",
        seed=1,
        schedule_sha256="0",
        target=STACK,
        segments=[],
        validity=Validity(
            verdict="invalid" if invalid else "valid", reasons=reasons, checks=reasons
        ),
        summary=None if invalid else Summary(num_by_status={}, plateau=window, whole=window),
    )


STACK = Stack(
    engine="fake", launcher="external", version="1", model="m", served_model="m", options={}
)


def attained(low: float) -> Estimate:
    return Estimate(value=1.0, low=low, high=1.0, n=100, method="Wilson score")


@pytest.mark.parametrize(
    ("kept", "invalid", "outcome"),
    [
        (attained(0.95), (), "kept"),
        (attained(0.94), (), "missed"),  # the estimate is 1, its lower bound is not enough
        (None, (), "unjudged"),
        (None, ("unsteady",), "missed"),
        (None, ("errors", "schedule_not_kept"), "missed"),
        (None, ("schedule_not_kept",), "unjudged"),
        (None, ("unsteady", "client_limited"), "unjudged"),
        (None, ("warm_cache",), "unjudged"),
        (None, ("a_later_check",), "unjudged"),
    ],
)
def test_what_the_stack_does_is_a_miss_and_what_the_client_does_is_no_answer(
    kept: Estimate | None, invalid: tuple[str, ...], outcome: str
) -> None:
    assert judge(run_of(kept, invalid), 0.95).outcome == outcome


SETTINGS = """client: Test
target: {kind: endpoint, url: "http://127.0.0.1:9/v1", model: m}
workloads: [{name: w, kind: capacity, rate_per_s: 4, synthetic: {}, precision_ratio: 0.3}]
promises: {ttft_s: {p95: 1}}
"""


def job_of(folder: Path, text: str = SETTINGS) -> Job:
    settings = parse_settings(text)
    return Job(
        engagement=Engagement(folder),
        settings=settings,
        load=settings.workloads[0],
        target=None,  # type: ignore[arg-type]  # nothing is sent: the levels are scripted
        stack="before",
    )


class Levels:
    """Measures a scripted stack that keeps its promise up to 10 a second; fails at call `cut`."""

    def __init__(self, engagement: Engagement, cut: int = 99) -> None:
        self.engagement, self.cut = engagement, cut
        self.rates: list[float] = []

    def __call__(self, job: Job) -> Run:
        if len(self.rates) == self.cut:
            raise KeyboardInterrupt
        rate = job.load.rate_per_s or 0.0
        self.rates.append(rate)
        run = run_of(attained(0.99 if rate <= 10 else 0.5), name=f"r-{rate:g}")
        path = self.engagement.run_dir(run.run) / "run.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(to_json(run))
        return run


def test_a_search_that_was_cut_goes_on_where_it_stopped(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    whole = Levels(Engagement(tmp_path / "whole"))
    measure_workload(job_of(tmp_path / "whole"), whole)
    cut = Levels(job.engagement, cut=2)
    with pytest.raises(KeyboardInterrupt):
        measure_workload(job, cut)
    assert not is_measured(job.engagement, "before", job.load)
    rest = Levels(job.engagement)
    measured = measure_workload(job, rest)
    assert cut.rates + rest.rates == whole.rates
    assert is_measured(job.engagement, "before", job.load)
    assert len(measured.runs) == len(whole.rates)


def test_a_search_for_another_promise_begins_anew(tmp_path: Path) -> None:
    for text, cut in ((SETTINGS, 2), (SETTINGS.replace("p95: 1", "p95: 2"), 1)):
        levels = Levels(Engagement(tmp_path), cut=cut)
        with pytest.raises(KeyboardInterrupt):
            measure_workload(job_of(tmp_path, text), levels)
        assert levels.rates == [4, 8][:cut]


def test_the_limiter_just_above_is_named_by_the_diagnosis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def diagnose(engagement: Engagement, settings: Settings, run: Run) -> Attribution:
        asked.append(run.run)
        return Attribution(
            run=run.run,
            validity=run.validity,
            time_class="scheduling",
            cause="batch_cap",
            confidence=0.9,
            abstained=False,
            shares={},
            overshoot=0.0,
            evidence=[],
            ruled_out=[],
            would_disprove=[],
            causes={},
            notes=[],
        )

    monkeypatch.setattr(module, "diagnose_run", diagnose)
    job = job_of(tmp_path)
    result = measure_workload(job, Levels(job.engagement)).result
    assert result is not None
    assert result.high is not None
    assert asked == [f"r-{result.high:g}"]
    assert "limited by scheduling, cause batch_cap" in result_text(result)
    assert f"{result.low:g} requests a second kept the promise" in result_text(result)
