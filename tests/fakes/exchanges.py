"""Exchanges as a client would have read them, without a client: events, times, and how they split.

`streamed` is for tests of what an answer means; times are milliseconds from the send, which
happens at `SENT_S` on the clock; the run started at `ZERO_S`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from teardown.load.exchange import BodyRead, Exchange
from teardown.load.record import Place, to_request
from teardown.records import Request
from tests.fakes.splits import SPLITS, pieces

__all__ = ["SENT_S", "SPLITS", "ZERO_S", "pieces", "request_of", "streamed"]

ZERO_S = 1000.0
SENT_S = 1002.0


def streamed(events: Sequence[tuple[float, bytes]], split: str = "whole", **more: Any) -> Exchange:
    """One streamed reply; every write is read whole, byte by byte, or at random places."""
    reads = [BodyRead(SENT_S, True, b"")]  # the head
    for t_ms, data in events:
        reads += [BodyRead(SENT_S + t_ms / 1000, True, part) for part in pieces(data, split)]
    fields: dict[str, Any] = {
        "sent_s": SENT_S,
        "http_status": 200,
        "content_type": "text/event-stream; charset=utf-8",
        "reads": reads,
        "num_reads": len(reads),
        "closed_s": reads[-1].stamp_s,
        "ending": "complete",
    }
    return Exchange(**fields | more)


def request_of(exchange: Exchange, count: Callable[[str], int] | None = None) -> Request:
    """The record of an exchange of a request that was intended half a second before its send."""
    place = Place("r0", 1, "0", "s0", 0, None, SENT_S - ZERO_S - 0.5, ZERO_S)
    return to_request(place, exchange, count=count).request
