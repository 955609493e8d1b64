"""Runs of the load process, summed up and certified as `teardown measure` does it."""

import statistics
from dataclasses import replace
from typing import Any

from teardown.load.certificate import Conditions, certify
from teardown.load.config import LoadConfig, LoadResult, Progress
from teardown.load.run import run_load
from teardown.load.summary import summarise
from teardown.records import Request, Schedule, Summary, Validity
from teardown.settings import Limit, Promises
from tests.fakes.engine import (
    FakeEngine,
    Served,
)
from tests.fakes.loads import (
    item,
    journal_of,
    schedule,
)

PROMISE = Promises(ttft_s=Limit(p95=0.5))


def quiet(progress: Progress) -> None:
    """Progress that nobody reads."""


def loaded(config: LoadConfig, **more: Any) -> tuple[LoadResult, list[Request]]:
    result = run_load(config, quiet, **more)
    return result, journal_of(config).requests


def judged(
    requests: list[Request], plan: Schedule, result: LoadResult | None = None, **more: Any
) -> Validity:
    """The certificate of a run, made as `teardown measure` makes it."""
    lag = result.receive_lag if result else None
    fields: dict[str, Any] = {
        "is_open": plan.kind == "open",
        "concurrency": plan.concurrency,
        "rate_per_s": plan.rate_per_s,
        "num_intended": len(plan.requests),
        "reusable_ratio": 0.0,
        "clock_moved_s": result.clock_offset_moved_s if result else 0.0,
        "receive_lag_p99_s": lag.p99 if lag else None,
    }
    return certify(requests, Conditions(**fields | more))


def level(validity: Validity, code: str) -> str:
    return next(check.level for check in validity.checks if check.code == code)


def placed(request: Request, number: int, sent_s: float) -> Request:
    """A record at another place of a run."""
    shift_s = sent_s - (request.sent_s or 0.0)
    return replace(
        request,
        request_id=f"r{number}",
        sent_s=sent_s,
        intended_s=None,
        chunk_s=[at + shift_s for at in request.chunk_s],
    )


def summed(requests: list[Request], concurrency: int, promises: Promises = PROMISE) -> Summary:
    return summarise(requests, promises, concurrency=concurrency, is_open=False)


def numbered(count: int, concurrency: int) -> Schedule:
    """Requests that the server can tell apart."""
    items = [item(n, lane=n % concurrency, max_tokens=100 + n) for n in range(count)]
    return schedule(items, concurrency=concurrency)


def served_by_id(fake: FakeEngine) -> dict[str, Served]:
    return {f"r{served.seen.json['max_tokens'] - 100}": served for served in fake.served}


def in_ms(values: list[float]) -> float:
    return 1000 * statistics.median(values)
