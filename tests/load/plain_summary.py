"""The formulas of DEFINITIONS.md for a summary, one request at a time, to compare with."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from teardown.load.silence import silence_of
from teardown.records import Request, Speech, Summary, Window
from teardown.settings import Limit, Promises
from teardown.stats import proportion, quantiles


def last_attempts(requests: Iterable[Request]) -> list[Request]:
    """Return one record a request: its last attempt (an interrupted run sends some again)."""
    last: dict[str, Request] = {}
    for request in requests:
        known = last.get(request.request_id)
        if known is None or request.attempt >= known.attempt:
            last[request.request_id] = request
    return list(last.values())


def summarise(
    requests: Sequence[Request],
    promises: Promises,
    *,
    concurrency: int,
    is_open: bool,
    is_live: bool = False,
    speech: Speech | None = None,
) -> Summary:
    """Return both windows of a run; `requests` holds every attempt, the last one counts.

    is_live: conversations, where a user counts as present from the first turn to the last answer
    and a turn is judged from its intended time. speech: as of a voice schedule.
    """
    final = placed(last_attempts(requests))
    start, end = span(final)
    plateau = plateau_of(final, concurrency=concurrency, is_open=is_open, is_live=is_live)
    is_timed = is_open or is_live
    return Summary(
        num_by_status=dict(sorted(Counter(r.status for r in final).items())),
        plateau=_window(final, promises, *plateau, is_open=is_timed, speech=speech),
        whole=_window(final, promises, start, end, is_open=is_timed, speech=speech),
    )


def placed(requests: Sequence[Request]) -> list[Request]:
    """Return `requests` with turns that were never sent placed where their session ended.

    Such a turn had no time of its own, and would otherwise be a miss in no window.
    """
    ended: dict[str | None, float] = {}
    for request in requests:
        if request.sent_s is not None:
            ended[request.session] = max(ended.get(request.session, 0.0), _end(request))
    return [
        request
        if _begin(request) is not None
        else replace(request, intended_s=ended.get(request.session, 0.0))
        for request in requests
    ]


def span(requests: Sequence[Request]) -> tuple[float, float]:
    """Return first send (or intention) and last end of a run, in seconds from its start."""
    starts = [t for r in requests if (t := _begin(r)) is not None]
    return min(starts, default=0.0), max((_end(r) for r in requests), default=0.0)


def plateau_of(
    requests: Sequence[Request], *, concurrency: int, is_open: bool, is_live: bool = False
) -> tuple[float, float]:
    """Return the window from the first moment at the asked load to the last.

    Open: first to last intended time. Closed: first to last moment with `concurrency` requests
    in flight, or sessions going on for `is_live`; the whole run where that was never reached.
    """
    if is_open:
        intended = [r.intended_s for r in requests if r.intended_s is not None]
        return (min(intended), max(intended)) if intended else span(requests)
    spans = [(r.sent_s, _end(r)) for r in requests if r.sent_s is not None]
    if is_live:
        spans = _sessions(requests)
    edges = sorted(edge for begin, end in spans for edge in ((begin, 1), (end, -1)))
    in_flight, first, last = 0, None, None
    for at_s, step in edges:
        if in_flight >= concurrency and step < 0:
            last = at_s
        in_flight += step
        if in_flight >= concurrency and first is None:
            first = at_s
    return (first, last) if first is not None and last is not None else span(requests)


def _sessions(requests: Sequence[Request]) -> list[tuple[float, float]]:
    """Return the first send and the last end of every session that was begun."""
    spans: dict[str | None, tuple[float, float]] = {}
    for request in requests:
        if request.sent_s is not None:
            known = spans.get(request.session, (request.sent_s, _end(request)))
            begin, end = min(known[0], request.sent_s), max(known[1], _end(request))
            spans[request.session] = (begin, end)
    return list(spans.values())


def keeps_promises(request: Request, promises: Promises, *, is_open: bool) -> bool:
    """True where every promise that this request can evaluate is kept; failures never do.

    Open loops are judged from the intended time.
    """
    if request.is_failed:
        return False
    wait = max(request.client_wait_s or 0.0, 0.0) if is_open else 0.0
    bounds: list[tuple[Limit | None, float | None, float]] = [
        (promises.ttft_s, request.ttft_s, wait),
        (promises.ttfo_s, request.ttfo_s, wait),
        (promises.tpot_s, request.tpot_s, 0.0),
        (promises.e2e_s, request.e2e_s, wait),
    ]
    for limit, value, extra in bounds:
        bound = limit.seconds if limit else None
        if bound is not None and value is not None and value + extra > bound:
            return False
    return True


def _window(
    requests: Sequence[Request],
    promises: Promises,
    start_s: float,
    end_s: float,
    *,
    is_open: bool,
    speech: Speech | None,
) -> Window:
    inside = [r for r in requests if _end(r) >= start_s and (_begin(r) or 0.0) <= end_s]
    good = [r for r in inside if not r.is_failed]
    length = end_s - start_s
    finished = [r for r in requests if not r.is_failed and start_s <= _end(r) <= end_s]
    kept = sum(keeps_promises(r, promises, is_open=is_open) for r in inside)
    has_promise = any((promises.ttft_s, promises.ttfo_s, promises.tpot_s, promises.e2e_s))
    cached = [r.cached_tokens for r in good if r.cached_tokens is not None]

    def of(pick: Callable[[Request], float | None]) -> list[float]:
        return [value for r in good if (value := pick(r)) is not None]

    wait = (lambda r: r.client_wait_s) if is_open else (lambda r: None)
    num_failed = len(inside) - len(good)
    return Window(
        start_s=start_s,
        end_s=end_s,
        num_requests=len(inside),
        num_failed=num_failed,
        requests_per_s=len(finished) / length if length > 0 else None,
        output_tokens_per_s=_tokens_within(requests, start_s, end_s) / length
        if length > 0
        else None,
        prompt_tokens=sum(r.prompt_tokens or 0 for r in good),
        cached_tokens=sum(cached) if cached else None,
        output_tokens=sum(r.output_tokens or 0 for r in good),
        ttft_s=quantiles(of(lambda r: r.ttft_s), num_failed),
        tpot_s=quantiles(of(lambda r: r.tpot_s), num_failed),
        e2e_s=quantiles(of(lambda r: r.e2e_s), num_failed),
        client_wait_s=quantiles(of(wait)),
        max_gap_s=quantiles(of(lambda r: r.max_gap_s), num_failed),
        attainment=proportion(kept, len(inside)) if has_promise else None,
        goodput_per_s=kept / length if length > 0 and has_promise else None,
        ttfo_s=quantiles(of(lambda r: r.ttfo_s), num_failed),
        silence_s=quantiles(of(lambda r: silence_of(r, speech))) if speech else None,
    )


def _tokens_within(requests: Sequence[Request], start_s: float, end_s: float) -> float:
    """Return output tokens by arrival: each request's tokens spread over its chunk stamps."""
    total = 0.0
    for request in requests:
        if not request.output_tokens:
            continue
        if request.chunk_s:
            share = sum(start_s <= t <= end_s for t in request.chunk_s) / len(request.chunk_s)
            total += request.output_tokens * share
        elif start_s <= _end(request) <= end_s:
            total += request.output_tokens
    return total


def _begin(request: Request) -> float | None:
    return request.intended_s if request.intended_s is not None else request.sent_s


def _end(request: Request) -> float:
    if request.e2e_s is None and request.stream_close_s is None and request.chunk_s:
        return request.chunk_s[-1]  # cut, timed out or stopped by us: its last sign of life
    sent = request.sent_s if request.sent_s is not None else (request.intended_s or 0.0)
    return sent + (request.e2e_s or request.stream_close_s or 0.0)
