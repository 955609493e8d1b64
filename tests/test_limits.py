"""What a measurement may cost: said before it starts, refused where it breaks a limit."""

import datetime as dt
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teardown.errors import TargetError, UsageError
from teardown.limits import (
    Bill,
    bill_of,
    bill_text,
    is_open,
    live_quantile,
    live_requests,
    refuse_beyond,
    window_of,
)
from teardown.records import Schedule, ScheduledRequest
from teardown.settings import HardwareSettings, Limits, Prices, Settings, TargetSettings
from teardown.workload.prompts import Prompt

SETTINGS = Settings(client="x", target=TargetSettings(url="http://h/v1"))
NOON = dt.datetime(2026, 12, 1, 12, 0)


def schedule(*, rate: float | None = None, number: int = 10) -> Schedule:
    return Schedule(
        workload="w",
        kind="closed" if rate is None else "open",
        seed=1,
        concurrency=1,
        rate_per_s=rate,
        prompts_sha256="",
        requests=[
            ScheduledRequest(
                request_id=str(i),
                prompt=0,
                prompt_sha256="",
                session=str(i),
                turn=0,
                max_tokens=50,
                lane=0,
                intended_s=None if rate is None else i / rate,
            )
            for i in range(number)
        ],
    )


PROMPTS = [
    Prompt(
        index=0, session="s", turn=0, max_tokens=None, at_s=None, body={}, text="x" * 400, sha256=""
    )
]


def test_the_bill_counts_requests_tokens_minutes_and_money() -> None:
    settings = replace(
        SETTINGS,
        prices=Prices(gpu_hour_usd=6.0, input_mtok_usd=1.0, output_mtok_usd=2.0),
        hardware=HardwareSettings(gpu="H200", count=2),
    )
    bill = bill_of(schedule(rate=0.1, number=13), PROMPTS, settings, [])
    assert bill.num_requests == 13
    assert bill.prompt_tokens == 1300
    assert bill.output_tokens_max == 650
    assert bill.minutes == pytest.approx(2.0)
    assert bill.usd == pytest.approx(2 * 6.0 * 2 / 60 + 1300e-6 + 2 * 650e-6)


def test_what_is_not_known_is_not_in_the_bill() -> None:
    bill = bill_of(schedule(), PROMPTS, SETTINGS, [])
    assert bill.minutes is None
    assert bill.usd is None
    assert "unknown before the first run" in bill_text(bill)
    assert "USD" not in bill_text(bill)


def refused(
    limits: Limits, made: Schedule, now: dt.datetime = NOON, usd: float | None = None
) -> str:
    bill = Bill(1, 1, 1, 1.0, usd)
    with pytest.raises(TargetError) as caught:
        refuse_beyond(replace(SETTINGS, limits=limits), made, bill, [], now)
    return str(caught.value)


def test_a_rate_above_the_limit_is_refused() -> None:
    assert "20 requests a second" in refused(Limits(max_requests_per_s=10), schedule(rate=20))
    refuse_beyond(
        replace(SETTINGS, limits=Limits(max_requests_per_s=20)),
        schedule(rate=20), Bill(1, 1, 1, 1.0, None), [], NOON,
    )  # fmt: skip


def test_load_outside_the_window_is_refused() -> None:
    assert "22:00-05:00" in refused(Limits(window="22:00-05:00"), schedule())


def test_a_run_that_would_pass_the_money_is_refused() -> None:
    assert "limits.max_usd is 5" in refused(Limits(max_usd=5), schedule(), usd=5.01)


@pytest.mark.parametrize(
    ("at", "expected"),
    [((21, 59), False), ((22, 0), True), ((0, 0), True), ((4, 59), True), ((5, 0), False)],
)
def test_a_window_may_pass_midnight(at: tuple[int, int], expected: bool) -> None:
    now = dt.datetime(2026, 12, 1, *at)
    assert is_open(Limits(window="22:00-05:00"), now) is expected


@pytest.mark.parametrize("text", ["22-5", "25:00-05:00", "", "22:00", "22:00-05:61"])
def test_a_window_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write it as"):
        window_of(text)


def test_our_own_requests_are_not_live_ones() -> None:
    assert live_requests(running=8, waiting=0, num_ours=8) == (0.0, 0.0)
    assert live_requests(running=8, waiting=2, num_ours=5) == (5.0, 1.0)
    assert live_requests(running=1, waiting=0, num_ours=3) == (0.0, 0.0)


def test_our_own_answers_are_taken_out_of_the_buckets() -> None:
    buckets = {0.1: 20.0, 0.5: 4.0, 2.5: 6.0}
    assert live_quantile(buckets, []) == 2.5
    assert live_quantile(buckets, [1.0] * 6) == 0.5
    assert live_quantile({0.1: 4.0, 1.0: 3.0}, [0.05] * 3) is None


@given(
    st.lists(st.sampled_from([0.05, 0.3, 0.9]), max_size=30),
    st.lists(st.sampled_from([0.05, 0.3, 0.9]), min_size=5, max_size=60),
)
def test_the_live_quantile_is_that_of_the_live_answers(
    ours: list[float], live: list[float]
) -> None:
    bounds = [0.1, 0.5, 1.0]
    everybody = [*ours, *live]
    buckets = {
        b: float(sum(lower < x <= b for x in everybody))
        for lower, b in zip([0.0, *bounds], bounds, strict=False)
    }
    rank = sorted(live)[max(0, -(-95 * len(live) // 100) - 1)]
    expected = next(b for b in bounds if rank <= b)
    assert live_quantile(buckets, ours) == expected
