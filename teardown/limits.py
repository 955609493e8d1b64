"""What a measurement may cost the client: said before it starts, and kept while it runs.

Before: requests, tokens, minutes and money of what is about to be sent; a schedule that breaks a
limit is refused. While it runs: the window's end, and the live users' queue and time to first
token, from the engine's own metrics with our own requests taken out.
"""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from teardown.errors import TargetError, UsageError
from teardown.records import Run, Schedule
from teardown.settings import HardwareSettings, Limits, Prices, Settings
from teardown.workload.prompts import Prompt

CHARS_PER_TOKEN: Final = 4  # of English; the server's own count is known only after the run
MIN_LIVE_ANSWERS: Final = 5  # of live users in the watched span, fewer say nothing of a p95
LIVE_FRACTION: Final = 0.95
WINDOW: Final = re.compile(r"(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})")


class Bill(NamedTuple):
    """What one run is going to send; `minutes` and `usd` are None where they are not known."""

    num_requests: int
    prompt_tokens: int
    output_tokens_max: int
    minutes: float | None
    usd: float | None


def bill_of(
    schedule: Schedule, prompts: Sequence[Prompt], settings: Settings, before: Sequence[Run]
) -> Bill:
    """Return the bill of `schedule`; `before` holds finished runs, of which the newest like it
    says how long a closed loop takes. Tokens of prompts are estimated from their characters.
    """
    by_index = {p.index: p for p in prompts}
    prompt_tokens = sum(
        len(by_index[r.prompt].text) // CHARS_PER_TOKEN
        for r in schedule.requests
        if r.prompt in by_index
    )
    output_tokens = sum(r.max_tokens for r in schedule.requests)
    minutes = _minutes(schedule, before)
    usd = usd_of(settings, minutes, prompt_tokens, output_tokens)
    return Bill(len(schedule.requests), prompt_tokens, output_tokens, minutes, usd)


def usd_of(
    settings: Settings, minutes: float | None, prompt_tokens: int, output_tokens: int
) -> float | None:
    """Return what the run costs at the engagement's prices; None without prices or duration.

    GPU-hours at `gpu_hour_usd` for each GPU, plus tokens at the prices of a hosted endpoint.
    """
    prices = settings.prices
    usd = _token_usd(prices, prompt_tokens, output_tokens)
    if prices.gpu_hour_usd is not None:
        if minutes is None:
            return None
        hardware = settings.hardware
        count = hardware.count if isinstance(hardware, HardwareSettings) else 1
        usd = (usd or 0.0) + prices.gpu_hour_usd * count * minutes / 60
    return usd


def _token_usd(prices: Prices, prompt_tokens: int, output_tokens: int) -> float | None:
    if prices.input_mtok_usd is None and prices.output_mtok_usd is None:
        return None
    return (
        prompt_tokens * (prices.input_mtok_usd or 0.0)
        + output_tokens * (prices.output_mtok_usd or 0.0)
    ) / 1e6


def bill_text(bill: Bill) -> str:
    """Return the bill in one line; what is not known is said to be so."""
    minutes = (
        "minutes unknown before the first run"
        if bill.minutes is None
        else (f"about {max(bill.minutes, 0.1):.1f} min")
    )
    usd = "" if bill.usd is None else f", about {bill.usd:.2f} USD"
    return (
        f"{bill.num_requests} requests, about {bill.prompt_tokens:,} prompt tokens, "
        f"at most {bill.output_tokens_max:,} output tokens, {minutes}{usd}"
    )


def spent_usd(settings: Settings, runs: Sequence[Run]) -> float:
    """Return what the finished runs have cost by their duration; tokens are not counted again."""
    minutes = sum(_run_minutes(run) for run in runs)
    return usd_of(settings, minutes, 0, 0) or 0.0


def refuse_beyond(
    settings: Settings, schedule: Schedule, bill: Bill, runs: Sequence[Run], now: dt.datetime
) -> None:
    """Raise TargetError in one sentence where sending `schedule` now would break a limit."""
    limits = settings.limits
    rate, most = schedule.rate_per_s, limits.max_requests_per_s
    if schedule.kind != "closed" and most is not None and rate is not None and rate > most:
        raise TargetError(
            f"workload {schedule.workload!r} asks for {rate:g} requests a second, and "
            f"limits.max_requests_per_s is {most:g}; lower the rate, or agree on a higher limit"
        )
    if not is_open(limits, now):
        raise TargetError(
            f"it is {now:%H:%M}, and limits.window allows load only in {limits.window}; "
            "nothing was sent"
        )
    if limits.max_usd is not None and bill.usd is not None:
        spent = spent_usd(settings, runs)
        if spent + bill.usd > limits.max_usd:
            raise TargetError(
                f"this run would cost about {bill.usd:.2f} USD, {spent:.2f} USD are spent, and "
                f"limits.max_usd is {limits.max_usd:g}; nothing was sent"
            )


def is_open(limits: Limits, now: dt.datetime) -> bool:
    """Return whether load may be sent at `now` (local time); a window may pass midnight."""
    if limits.window is None:
        return True
    start, end = window_of(limits.window)
    at = now.time()
    return start <= at < end if start <= end else at >= start or at < end


def window_of(text: str) -> tuple[dt.time, dt.time]:
    """Return start and end of a window such as `22:00-05:00`; UsageError for anything else."""
    match = WINDOW.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError
        numbers = [int(group) for group in match.groups()]
        return dt.time(numbers[0], numbers[1]), dt.time(numbers[2], numbers[3])
    except ValueError:
        raise UsageError(f"limits.window is {text!r}; write it as 22:00-05:00") from None


def live_requests(running: float, waiting: float, num_ours: int) -> tuple[float, float]:
    """Return how many live requests run or wait, and how many of those wait.

    Which of the waiting are ours is not on the page: they are divided in proportion.
    """
    all_of_them = running + waiting
    live = max(all_of_them - num_ours, 0.0)
    return live, waiting * live / all_of_them if all_of_them else 0.0


def live_quantile(
    buckets: Mapping[float, float], ours_s: Sequence[float], fraction: float = LIVE_FRACTION
) -> float | None:
    """Return the upper bound of the bucket that holds the quantile of the live users' times.

    buckets: answers by upper bound `le` (not cumulative), of everybody in the watched span; ours_s:
    our own times in that span, taken out of the bucket they fall in. None below `MIN_LIVE_ANSWERS`.
    """
    bounds = sorted(buckets)
    left = {bound: buckets[bound] for bound in bounds}
    for ours in ours_s:
        # our clock adds the network: where our bucket is empty, the server saw it in an earlier one
        for bound in [b for b in bounds if b >= ours][:1] + [b for b in bounds if b < ours][::-1]:
            if left[bound] >= 1:
                left[bound] -= 1
                break
    total = sum(left.values())
    if total < MIN_LIVE_ANSWERS:
        return None
    seen = 0.0
    for bound in bounds:
        seen += left[bound]
        if seen >= fraction * total:
            return bound
    return bounds[-1]


def _minutes(schedule: Schedule, before: Sequence[Run]) -> float | None:
    times = [r.intended_s for r in schedule.requests if r.intended_s is not None]
    if times:
        return max(times) / 60
    like = [run for run in before if run.workload == schedule.workload and run.segments]
    return _run_minutes(like[-1]) if like else None


def _run_minutes(run: Run) -> float:
    return sum(s.ended_unix_s - s.started_unix_s for s in run.segments) / 60
