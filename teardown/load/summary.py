"""The summary of one run: plateau and whole run, by the formulas of DEFINITIONS.md."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, NotRequired, TypedDict, Unpack

import numpy as np

from teardown.load.columns import Flags, Numbers, RunColumns, columns_of, read_columns
from teardown.load.silence import stalled
from teardown.records import Quantiles, Request, Speech, Summary, Window
from teardown.settings import Promises
from teardown.stats import proportion, quantiles


class Span(NamedTuple):
    """A window of a run, both ends inside; seconds from the run's start."""

    start_s: float
    end_s: float


class Shape(TypedDict):
    """How a run was asked to be.

    is_live: conversations, where a user counts as present from the first turn to the last answer
    and a turn is judged from its intended time. speech: as of a voice schedule.
    """

    concurrency: int
    is_open: bool
    is_live: NotRequired[bool]
    speech: NotRequired[Speech | None]


def last_attempts(requests: Iterable[Request]) -> list[Request]:
    """Return one record a request: its last attempt (an interrupted run sends some again)."""
    last: dict[str, Request] = {}
    for request in requests:
        known = last.get(request.request_id)
        if known is None or request.attempt >= known.attempt:
            last[request.request_id] = request
    return list(last.values())


def summarise(requests: Sequence[Request], promises: Promises, **shape: Unpack[Shape]) -> Summary:
    """Return both windows of a run; `requests` holds every attempt, the last one counts."""
    return summarise_columns(columns_of(requests), promises, **shape)


def summarise_table(path: Path, promises: Promises, **shape: Unpack[Shape]) -> Summary:
    """Return both windows of a run from its table on disk; UsageError where that is none."""
    return summarise_columns(read_columns(path), promises, **shape)


def plateau_of(
    requests: Sequence[Request], *, concurrency: int, is_open: bool, is_live: bool = False
) -> Span:
    """Return the window from the first moment at the asked load to the last."""
    return plateau_of_columns(
        columns_of(requests), concurrency=concurrency, is_open=is_open, is_live=is_live
    )


def summarise_columns(run: RunColumns, promises: Promises, **shape: Unpack[Shape]) -> Summary:
    """Return both windows of a run; its chunks are read once, twice where speech is judged."""
    is_open, is_live = shape["is_open"], shape.get("is_live", False)
    speech = shape.get("speech")
    plateau_span = plateau_of_columns(
        run, concurrency=shape["concurrency"], is_open=is_open, is_live=is_live
    )
    spans = [plateau_span, whole_span(run)]
    silence_s = None if speech is None else _silence(run, speech)
    tokens = _tokens_within(run, spans)
    plateau, whole = (
        _window(run, promises, span, tokens=count, is_timed=is_open or is_live, silence_s=silence_s)
        for span, count in zip(spans, tokens, strict=True)
    )
    status, count = np.unique(run.status.astype(str), return_counts=True)
    return Summary(
        num_by_status=dict(zip(status.tolist(), count.tolist(), strict=True)),
        plateau=plateau,
        whole=whole,
    )


def whole_span(run: RunColumns) -> Span:
    """Return first send (or intention) and last end of a run."""
    begun = run.begin_s[~np.isnan(run.begin_s)]
    end = run.end_s
    return Span(float(begun.min()) if len(begun) else 0.0, float(end.max()) if len(end) else 0.0)


def plateau_of_columns(
    run: RunColumns, *, concurrency: int, is_open: bool, is_live: bool = False
) -> Span:
    """Return the window from the first moment at the asked load to the last.

    Open: first to last intended time. Closed: first to last moment with `concurrency` requests
    in flight, or sessions going on for `is_live`; the whole run where that was never reached.
    """
    if is_open:
        intended = run.numbers["intended_s"]
        intended = intended[~np.isnan(intended)]
        if not len(intended):
            return whole_span(run)
        return Span(float(intended.min()), float(intended.max()))
    begin, end = _sessions(run) if is_live else (run.numbers["sent_s"], run.end_s)
    at_s, step = edges(begin, end)
    in_flight = np.cumsum(step)
    reached = np.flatnonzero(in_flight >= concurrency)
    left = np.flatnonzero((in_flight - step >= concurrency) & (step < 0))
    if not len(reached) or not len(left):
        return whole_span(run)
    return Span(float(at_s[reached[0]]), float(at_s[left[-1]]))


def _sessions(run: RunColumns) -> tuple[Numbers, Numbers]:
    """Return first send and last end of every session; NaN where nothing of it was sent."""
    is_sent = ~np.isnan(run.numbers["sent_s"])
    number = run.session[is_sent]
    size = int(run.session.max()) + 1 if len(run.session) else 0
    begin, end = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(begin, number, run.numbers["sent_s"][is_sent])
    np.maximum.at(end, number, run.end_s[is_sent])
    return np.where(np.isinf(begin), np.nan, begin), end


def _silence(run: RunColumns, speech: Speech) -> Numbers:
    """Return the silence of every turn (`silence.py`); NaN where its TTFO is not known."""
    ttfo, tokens = run.numbers["ttfo_s"], np.nan_to_num(run.numbers["output_tokens"])
    answer = np.nan_to_num(run.numbers["sent_s"]) + ttfo
    wait = np.nan_to_num(np.maximum(run.client_wait_s, 0.0))
    silent: Numbers = speech.endpointing_s + wait + ttfo
    for batch in run.chunks():
        for place, row in enumerate(range(batch.rows.start, batch.rows.stop)):
            stamps = batch.stamps_s[batch.offsets[place] : batch.offsets[place + 1]].tolist()
            if not np.isnan(ttfo[row]):
                silent[row] += stalled(float(answer[row]), float(tokens[row]), stamps, speech)
    return silent


def edges(begin_s: Numbers, end_s: Numbers) -> tuple[Numbers, Numbers]:
    """Return the moments at which the number in flight changes, ascending, and the changes.

    Requests that begin at NaN were never sent. An end comes before a start of the same moment.
    """
    is_sent = ~np.isnan(begin_s)
    at_s = np.concatenate([begin_s[is_sent], end_s[is_sent]])
    step = np.repeat([1.0, -1.0], np.count_nonzero(is_sent))
    order = np.lexsort((step, at_s))
    return at_s[order], step[order]


def keeps_promises(run: RunColumns, promises: Promises, *, is_open: bool) -> Flags:
    """True where every promise that a request can evaluate is kept; failures never do.

    Open loops are judged from the intended time.
    """
    wait = np.nan_to_num(np.maximum(run.client_wait_s, 0.0)) if is_open else 0.0
    kept = ~run.is_failed
    for limit, name, extra in (
        (promises.ttft_s, "ttft_s", wait),
        (promises.ttfo_s, "ttfo_s", wait),
        (promises.tpot_s, "tpot_s", 0.0),
        (promises.e2e_s, "e2e_s", wait),
    ):
        if limit is not None and limit.seconds is not None:
            kept &= ~(run.numbers[name] + extra > limit.seconds)  # NaN: not to be evaluated
    return kept


def _window(
    run: RunColumns,
    promises: Promises,
    span: Span,
    *,
    tokens: float,
    is_timed: bool,
    silence_s: Numbers | None,
) -> Window:
    start_s, end_s = span
    end = run.end_s
    is_inside = (end >= start_s) & (np.nan_to_num(run.begin_s) <= end_s)
    is_good = is_inside & ~run.is_failed
    is_finished = ~run.is_failed & (start_s <= end) & (end <= end_s)
    length = end_s - start_s
    num_inside = int(np.count_nonzero(is_inside))
    kept = int(np.count_nonzero(keeps_promises(run, promises, is_open=is_timed) & is_inside))
    has_promise = any((promises.ttft_s, promises.ttfo_s, promises.tpot_s, promises.e2e_s))
    cached = _present(run.numbers["cached_tokens"][is_good])

    num_failed = num_inside - int(np.count_nonzero(is_good))

    def of(values: Numbers) -> Quantiles:
        return quantiles(_sorted(values[is_good]), num_failed)

    def per_second(count: float) -> float | None:
        return count / length if length > 0 else None

    return Window(
        start_s=start_s,
        end_s=end_s,
        num_requests=num_inside,
        num_failed=num_failed,
        requests_per_s=per_second(int(np.count_nonzero(is_finished))),
        output_tokens_per_s=per_second(tokens),
        prompt_tokens=int(np.nansum(run.numbers["prompt_tokens"][is_good])),
        cached_tokens=int(cached.sum()) if len(cached) else None,
        output_tokens=int(np.nansum(run.numbers["output_tokens"][is_good])),
        ttft_s=of(run.numbers["ttft_s"]),
        tpot_s=of(run.numbers["tpot_s"]),
        e2e_s=of(run.numbers["e2e_s"]),
        client_wait_s=quantiles(_sorted(run.client_wait_s[is_good]) if is_timed else []),
        max_gap_s=of(run.numbers["max_gap_s"]),
        attainment=proportion(kept, num_inside) if has_promise else None,
        goodput_per_s=per_second(kept) if has_promise else None,
        ttfo_s=of(run.numbers["ttfo_s"]),
        silence_s=None if silence_s is None else quantiles(_sorted(silence_s[is_good])),
    )


def _tokens_within(run: RunColumns, spans: Sequence[Span]) -> list[float]:
    """Return output tokens by arrival: each request's tokens spread over its chunk stamps."""
    tokens, end = np.nan_to_num(run.numbers["output_tokens"]), run.end_s
    totals = [0.0] * len(spans)
    for batch in run.chunks():
        lengths = batch.lengths
        for index, (start_s, end_s) in enumerate(spans):
            is_inside = (batch.stamps_s >= start_s) & (batch.stamps_s <= end_s)
            before = np.concatenate([[0], np.cumsum(is_inside)])
            inside = before[batch.offsets[1:]] - before[batch.offsets[:-1]]
            ended = end[batch.rows]
            whole = (start_s <= ended) & (ended <= end_s)
            share = np.where(lengths > 0, inside / np.maximum(lengths, 1), whole)
            totals[index] += float(np.sum(tokens[batch.rows] * share))
    return totals


def _present(values: Numbers) -> Numbers:
    return values[~np.isnan(values)]


def _sorted(values: Numbers) -> list[float]:
    found: list[float] = np.sort(_present(values)).tolist()
    return found
