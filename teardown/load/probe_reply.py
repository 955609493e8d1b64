"""What one reply of the probe shows: times as the kit measures them, and how the bytes are made.

The times are those of a measured request; beside them stands what only a careful look at the bytes
tells: comments, line ends, where usage stood, under which key reasoning came. No text is kept but
the head of a reply that is no stream of events.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from teardown.load.document import Malformed, items_of, object_of, parse
from teardown.load.exchange import Exchange
from teardown.load.record import Place, events_of, to_request
from teardown.load.sse import Event
from teardown.records import Request

HEAD_CHARACTERS: Final = 80
REASONING_KEYS: Final = ("reasoning", "reasoning_content")

# main: streamed; whole: the same, not streamed; salted: the same under another salt
ReplyName = Literal["main", "whole", "wrong_model", "completions", "responses", "salted", "chat"]
Form = Literal["events", "json", "html", "text", "none"]
Newline = Literal["LF", "CRLF", "CR", "mixed"]
# own: an event without a choice; finish: with the finish reason; content: with text
UsagePlace = Literal["own", "finish", "content"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyFacts:
    """One reply. Times count from the send, seconds; counts are None where the server gave none.

    role_s: when an event came that had a role and no content; num_spans: reads that brought chunks;
    is_reused: a kept-alive connection served it; num_usages: events with token counts.
    """

    name: ReplyName
    request: Request
    form: Form
    is_reused: bool
    role_s: float | None = None
    num_spans: int = 0
    usage_places: list[UsagePlace] = field(default_factory=list)
    num_usages: int = 0
    reasoning_key: str | None = None
    num_comments: int = 0
    newline: Newline | None = None
    is_done: bool = False
    has_error_inside: bool = False
    head: str = ""

    @property
    def is_ok(self) -> bool:
        """True for a complete answer."""
        return self.request.status == "ok"

    @property
    def is_offered(self) -> bool:
        """True where the server answered this kind of request with success."""
        return self.request.http_status is not None and self.request.http_status < 300


def facts_of(name: ReplyName, exchange: Exchange) -> ReplyFacts:
    """Return what `exchange` shows."""
    place = Place(
        request_id=name,
        attempt=1,
        worker="0",
        session=name,
        turn=0,
        salt=None,
        intended_s=None,
        zero_s=exchange.sent_s or 0.0,
    )
    request = to_request(place, exchange).request
    form = _form(exchange)
    shown: dict[str, Any] = {}
    if form == "events" and exchange.sent_s is not None:
        shown = _look(exchange, exchange.sent_s)
    elif form != "none":
        text = exchange.body[:2000].decode("utf-8", errors="replace")
        shown["head"] = " ".join(text.split())[:HEAD_CHARACTERS]
    return ReplyFacts(
        name=name,
        request=request,
        form=form,
        is_reused=exchange.sent_s is not None and exchange.connect_s is None,
        num_spans=len(set(request.chunk_s)),
        has_error_inside=_is_error_inside(exchange, request),
        **shown,
    )


def _is_error_inside(exchange: Exchange, request: Request) -> bool:
    has_succeeded = exchange.http_status is not None and exchange.http_status < 300
    return has_succeeded and exchange.ending == "complete" and request.status == "error"


def _form(exchange: Exchange) -> Form:
    start = exchange.body[:200].lstrip().lower()
    if not start:
        return "none"
    if "event-stream" in exchange.content_type or start.startswith((b"data:", b"event:", b":")):
        return "events"
    if "html" in exchange.content_type or start.startswith((b"<!doctype", b"<html")):
        return "html"
    return "json" if parse(exchange.body) is not None else "text"


def _look(exchange: Exchange, sent_s: float) -> dict[str, Any]:
    """Return the fields that need the events one by one."""
    shown: dict[str, Any] = {"num_usages": 0, "is_done": False}
    places: set[UsagePlace] = set()
    for event in events_of(exchange, sent_s):
        if event.data.strip() == "[DONE]":
            shown["is_done"] = True
            continue
        try:
            choices, usage = _parts(event)
        except Malformed:
            continue  # the request's own error says so
        deltas = [object_of(choice, "delta") for choice in choices if "delta" in choice]
        texts = [delta.get("content") for delta in deltas]
        if any(delta.get("role") for delta in deltas) and not any(texts):
            shown.setdefault("role_s", event.stamp_s - sent_s)
        for key in REASONING_KEYS:
            if any(delta.get(key) for delta in deltas):
                shown.setdefault("reasoning_key", key)
        if usage:
            shown["num_usages"] += 1
            places.add(_usage_place(choices))
    body = exchange.body
    shown["usage_places"] = sorted(places)
    shown["num_comments"] = len(re.findall(rb"(?:^|[\r\n]):", body))
    shown["newline"] = _newline(body)
    return shown


def _parts(event: Event) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    document = parse(event.data) or {}
    choices = items_of(document, "choices")
    for choice in choices:
        object_of(choice, "delta")  # Malformed where it is none
    return choices, object_of(document, "usage")


def _usage_place(choices: list[dict[str, Any]]) -> UsagePlace:
    if not choices:
        return "own"
    return "finish" if any(choice.get("finish_reason") for choice in choices) else "content"


def _newline(body: bytes) -> Newline | None:
    ends = set(re.findall(rb"\r\n|\r|\n", body))
    if not ends:
        return None
    names: dict[bytes, Newline] = {b"\n": "LF", b"\r\n": "CRLF", b"\r": "CR"}
    return names[ends.pop()] if len(ends) == 1 else "mixed"
