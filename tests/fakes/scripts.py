"""What a scripted server writes and when: common answers, and ways in which they go wrong.

A script is a list of `(t_ms, raw)`: `raw` is written `t_ms` milliseconds after the request was
read; `CLOSE` and `RESET` in its place end the connection, `HANG` waits for the client to go.
"""

import enum
import json
from collections.abc import Sequence
from typing import Any


class Act(enum.Enum):
    """What a script does to its connection in place of a write."""

    CLOSE = "close"
    RESET = "reset"
    HANG = "hang"


CLOSE, RESET, HANG = Act.CLOSE, Act.RESET, Act.HANG
Script = list[tuple[float, bytes | Act]]


def http_reply(
    body: bytes,
    *,
    status: str = "200 OK",
    content_type: str = "application/json",
    headers: Sequence[str] = (),
) -> bytes:
    """A whole reply with its length."""
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
STREAM_END = b"0\r\n\r\n"


def http_chunk(data: bytes) -> bytes:
    """`data` in the framing of chunked transfer coding."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def sse(document: Any, newline: str = "\n") -> bytes:
    """One event; a string goes as it is, anything else as JSON."""
    text = document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)
    return f"data: {text}{newline}{newline}".encode()


def chunk_document(
    delta: dict[str, Any] | None = None, finish_reason: str | None = None, **more: Any
) -> dict[str, Any]:
    """One chat.completion.chunk; without a delta it has no choices (usage alone)."""
    choices = []
    if delta is not None:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish_reason}]
    base = {"id": "chatcmpl-0", "object": "chat.completion.chunk", "created": 0, "model": "fake"}
    return {**base, "choices": choices, **more}


def usage_document(
    completion: int, prompt: int = 10, reasoning: int | None = None, cached: int | None = None
) -> dict[str, Any]:
    """A usage object; details are null where their count is None."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "completion_tokens_details": None if reasoning is None else {"reasoning_tokens": reasoning},
        "prompt_tokens_details": None if cached is None else {"cached_tokens": cached},
    }


def stream_script(events: Sequence[tuple[float, bytes]], *, end_ms: float | None = None) -> Script:
    """A 200 reply whose events are written at their times, then the end of the body."""
    script: Script = [(0.0, STREAM_HEAD)]
    script += [(t_ms, http_chunk(data)) for t_ms, data in events]
    last_ms = events[-1][0] if events else 0.0
    return [*script, (last_ms if end_ms is None else end_ms, STREAM_END)]


def chat_events(
    texts: Sequence[str],
    *,
    first_ms: float = 20.0,
    gap_ms: float = 10.0,
    role_ms: float = 1.0,
    usage: dict[str, Any] | None = None,
    finish_reason: str | None = "length",
    done: bool = True,
    more: dict[str, Any] | None = None,
) -> list[tuple[float, bytes]]:
    """Role, one content delta per text, finish reason, usage, [DONE]; usage None: one token each.

    more: further members of the event with the finish reason (llama.cpp's `timings`).
    """
    events = [(role_ms, sse(chunk_document({"role": "assistant", "content": ""})))]
    for number, text in enumerate(texts):
        events.append((first_ms + number * gap_ms, sse(chunk_document({"content": text}))))
    last_ms = events[-1][0]
    tail = b""
    if finish_reason is not None:
        tail += sse(chunk_document({}, finish_reason, **(more or {})))
        tail += sse(chunk_document(usage=usage or usage_document(len(texts))))
    if done:
        tail += sse("[DONE]")
    return [*events, (last_ms, tail)] if tail else events


def chat_stream(texts: Sequence[str], **options: Any) -> Script:
    """The script of an ordinary streamed answer; options as for `chat_events`."""
    return stream_script(chat_events(texts, **options))


def chat_json(text: str, *, at_ms: float = 20.0, usage: dict[str, Any] | None = None) -> Script:
    """A reply that is not streamed."""
    message = {"role": "assistant", "content": text}
    document = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage or usage_document(5),
    }
    return [(at_ms, http_reply(json.dumps(document).encode()))]


def chat_error(texts: Sequence[str], message: str = "out of memory", **options: Any) -> Script:
    """A 200 reply that turns into an error object after some content."""
    events = chat_events(texts, finish_reason=None, done=False, **options)
    last_ms = events[-1][0]
    error = {"error": {"message": message, "type": "server_error", "code": 500}}
    return stream_script([*events, (last_ms + 1, sse(error) + sse("[DONE]"))])


def chat_cut(texts: Sequence[str], act: Act = CLOSE, **options: Any) -> Script:
    """An answer that ends in the middle, by a plain close or by a reset."""
    script = stream_script(chat_events(texts, finish_reason=None, done=False, **options))
    last_ms = script[-1][0]
    return [*script[:-1], (last_ms + 5, act)]


def refusal(code: int = 429, at_ms: float = 0.0) -> Script:
    """A reply of 429 or 503."""
    names = {429: "Too Many Requests", 503: "Service Unavailable", 500: "Internal Server Error"}
    body = json.dumps({"error": {"message": f"refused with {code}"}}).encode()
    return [(at_ms, http_reply(body, status=f"{code} {names.get(code, 'Error')}"))]
