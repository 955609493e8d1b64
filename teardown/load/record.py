"""An exchange becomes one `Request` record: classed, timed by DEFINITIONS.md, nothing guessed."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from teardown.load.answer import Answer, error_text, read_body, read_stream
from teardown.load.exchange import Exchange
from teardown.load.sse import Event, SseParser
from teardown.load.times import measure
from teardown.load.tokens import count_texts
from teardown.records import Request, Status

# Reads that are parsed in one go, about a quarter of a millisecond of work.
READS_PER_TURN: Final = 48
REFUSING_STATUSES: Final = frozenset({429, 503})
REUSED: Final = "a kept-alive connection was used"
NO_KERNEL_STAMPS: Final = "the kernel gave no receive stamps"
NOTHING_READ: Final = "nothing was received"
WHY_BY_ENDING: Final = {
    "closed": "the server closed the connection before the answer was complete",
    "reset": "the connection was reset",
    "not_http": "the reply is not HTTP",
    "timeout": "no complete answer within the time-out",
    "connection_refused": "connection refused",
    "unreachable": "no connection",
    "aborted": "stopped by us while in flight",
    "failed": "a fault of the load process",
}
STATUS_BY_ENDING: Final[dict[str, Status]] = {
    "timeout": "timeout",
    "connection_refused": "refused",
    "unreachable": "error",
    "aborted": "aborted",
    "failed": "error",
    "not_http": "error",
}


class Place(NamedTuple):
    """Where a request stands in its run. `zero_s` is the run's start on the monotonic clock,
    moved back by the time that earlier attempts took; `intended_s` counts from there.
    """

    request_id: str
    attempt: int
    worker: str
    session: str
    turn: int
    salt: str | None
    intended_s: float | None
    zero_s: float


class RequestParts(NamedTuple):
    """A record, and how many server-sent events it was made from."""

    request: Request
    num_events: int


def to_request(
    place: Place,
    exchange: Exchange,
    pause: Callable[[], None] = lambda: None,
    count: Callable[[str], int] | None = None,
) -> RequestParts:
    """Return the record of `exchange`; a failure keeps what was measured before it.

    `pause` is called every few reads, so that a caller with other work can go on with it. `count`:
    tokens of a text by a tokenizer, for what the server does not report.
    """
    answer = _read(exchange, pause)
    if count is not None:
        count_texts(answer, count)
    status, error = _classify(exchange, answer)
    times = measure(exchange, answer, is_ok=status == "ok")
    sent_s = exchange.sent_s
    lag_s = percentile(exchange.lags_s, 0.99)
    if exchange.connect_s is None and sent_s is not None:
        times.reasons["connect_s"] = REUSED
    if lag_s is None:
        times.reasons["receive_lag_s"] = NO_KERNEL_STAMPS if exchange.num_reads else NOTHING_READ
    request = Request(
        request_id=place.request_id,
        attempt=place.attempt,
        status=status,
        finish_reason=answer.finish_reason,
        http_status=exchange.http_status,
        worker=place.worker,
        session=place.session,
        turn=place.turn,
        salt=place.salt,
        intended_s=place.intended_s,
        connect_s=exchange.connect_s,
        sent_s=None if sent_s is None else sent_s - place.zero_s,
        prompt_tokens=answer.prompt_tokens,
        output_tokens=answer.output_tokens,
        reasoning_tokens=answer.reasoning_tokens,
        cached_tokens=answer.cached_tokens,
        output_tokens_source=_source(answer),
        text_sha256=answer.text_sha256,
        chunk_s=[chunk.stamp_s - place.zero_s for chunk in answer.chunks],
        stamp_width_s=[chunk.width_s for chunk in answer.chunks],
        receive_lag_s=lag_s,
        error=error,
        server=answer.server,
        reasons=times.reasons,
        **times.values,
    )
    return RequestParts(request, answer.num_events)


def percentile(values: Sequence[float], fraction: float) -> float | None:
    """Return the nearest-rank percentile; the largest value where there are few; None of none."""
    if not values:
        return None
    return sorted(values)[max(math.ceil(fraction * len(values)) - 1, 0)]


def _source(answer: Answer) -> Literal["usage", "tokenizer"] | None:
    if answer.output_tokens is None:
        return None
    return "tokenizer" if answer.is_counted else "usage"


def _read(exchange: Exchange, pause: Callable[[], None]) -> Answer:
    if exchange.sent_s is None or exchange.http_status is None or exchange.http_status >= 300:
        return Answer(is_stream=False)
    if "event-stream" not in exchange.content_type:
        body = exchange.body
        if "json" in exchange.content_type or body.lstrip().startswith(b"{"):
            if exchange.ending != "complete":
                return Answer(is_stream=False)
            return read_body(body, exchange.last_byte_s or exchange.sent_s)
    return read_stream(events_of(exchange, exchange.sent_s, pause))


def events_of(
    exchange: Exchange, sent_s: float, pause: Callable[[], None] = lambda: None
) -> Iterator[Event]:
    """Yield the events of a stream that was sent at `sent_s`; `pause` is called every few reads."""
    parser = SseParser(sent_s)
    for number, read in enumerate(exchange.reads, 1):
        yield from parser.feed(
            read.data,
            read.stamp_s,
            is_own_stamp=read.is_own_stamp,
            is_drained=read.is_drained,
        )
        if number % READS_PER_TURN == 0:
            pause()


def _classify(exchange: Exchange, answer: Answer) -> tuple[Status, str | None]:
    code = exchange.http_status
    why = WHY_BY_ENDING.get(exchange.ending, "")
    if exchange.detail:
        why = f"{why}: {exchange.detail}"
    if exchange.ending in ("aborted", "failed"):
        return STATUS_BY_ENDING[exchange.ending], why
    if code is not None and not 200 <= code < 300:
        text = f"HTTP {code}: {error_text(exchange.body)}"
        return ("refused" if code in REFUSING_STATUSES else "error"), text
    if answer.error is not None:
        return "error", answer.error
    if exchange.ending in STATUS_BY_ENDING:
        return STATUS_BY_ENDING[exchange.ending], why
    if exchange.ending != "complete" and code is None:
        return "error", f"no answer: {why}"
    if exchange.ending != "complete" and not answer.is_whole:
        return "cut", why
    if not answer.chunks:
        return "empty", "the answer has no content"
    if answer.is_stream and not answer.is_whole:
        return "cut", "the stream ended without a finish reason and without [DONE]"
    return "ok", None
