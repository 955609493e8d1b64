"""One answer is read from its events: what was said is hashed, when and how much is kept.

Formulas are those of DEFINITIONS.md. A chunk is an event with content, reasoning or a tool call
that is not the empty string; a role, an empty delta and a usage report are not chunks. Times are
the stamps of the events, in seconds.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from teardown.load import responses
from teardown.load.chat import read_chat
from teardown.load.document import Malformed, parse
from teardown.load.part import Part, Piece
from teardown.load.sse import Event
from teardown.records import ServerTimings

DONE: Final = "[DONE]"
ERROR_CHARACTERS: Final = 200  # an error may quote the prompt; its head says enough
COUNTS: Final = ("prompt_tokens", "output_tokens", "reasoning_tokens", "cached_tokens", "server")


class Chunk(NamedTuple):
    """One piece of an answer, and its text of every kind. `reported_tokens`: all tokens so far, as
    the server counts them; `logprob_entries`: tokens of this chunk by its log-probabilities; both
    None where absent.
    """

    stamp_s: float
    width_s: float
    text: str
    has_reasoning: bool
    has_answer: bool
    has_finish: bool
    reported_tokens: int | None
    logprob_entries: int | None


@dataclass(slots=True, kw_only=True)
class Answer:
    """What one reply said of itself; counts are None where it said nothing.

    `is_counted`: output_tokens is a tokenizer's count of the text, no report of the server;
    `first_tokens`: a tokenizer's count of the first chunk.
    """

    is_stream: bool
    chunks: list[Chunk] = field(default_factory=list)
    finish_reason: str | None = None
    stop_string: str | None = None
    is_done: bool = False
    num_events: int = 0
    error: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    server: ServerTimings | None = None
    text_sha256: str | None = None
    is_counted: bool = False
    first_tokens: int | None = None

    @property
    def is_whole(self) -> bool:
        """True when the reply said that it ended: a finish reason, or `[DONE]`."""
        return self.finish_reason is not None or self.is_done

    @property
    def has_reasoning(self) -> bool:
        """True when reasoning itself was streamed, not a summary of it alone."""
        return any(chunk.has_reasoning for chunk in self.chunks)

    @property
    def text(self) -> str:
        """Everything that was streamed, reasoning and tool calls included."""
        return "".join(chunk.text for chunk in self.chunks)


def read_stream(events: Iterable[Event]) -> Answer:
    """Return the answer of one event stream; a malformed event becomes `error`, never raises."""
    answer = Answer(is_stream=True)
    digest = _TextDigest()
    for event in events:
        answer.num_events += 1
        if event.data.strip() == DONE:
            answer.is_done = True
            continue
        document = parse(event.data)
        if document is None:
            answer.error = answer.error or f"event {answer.num_events} is not a JSON object"
            continue
        try:
            _take(answer, digest, document, event, "delta")
        except Malformed as malformed:
            answer.error = answer.error or f"event {answer.num_events}: {malformed}"
    answer.text_sha256 = digest.value
    return answer


def read_body(body: bytes, stamp_s: float) -> Answer:
    """Return the answer of one reply that is a single JSON document, complete at `stamp_s`."""
    answer = Answer(is_stream=False)
    digest = _TextDigest()
    document = parse(body)
    if document is None:
        answer.error = "the reply is not a JSON object"
        return answer
    answer.num_events = 1
    try:
        _take(answer, digest, document, Event("", "message", stamp_s, stamp_s, False), "message")
    except Malformed as malformed:
        answer.error = f"the reply: {malformed}"
    answer.is_done = answer.error is None and answer.finish_reason is not None
    answer.text_sha256 = digest.value
    return answer


def error_text(body: bytes) -> str:
    """Return what a failed reply says, in one line of at most `ERROR_CHARACTERS`."""
    document = parse(body)
    found = _error_of(document, "error") if document is not None else None
    return found or _shorten(body.decode("utf-8", errors="replace"))


class _TextDigest:
    """Hash of the answer's text: content and tool calls, in order; reasoning is left out."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._is_empty = True

    def add(self, text: str) -> None:
        if text:
            self._hash.update(text.encode("utf-8", errors="surrogatepass"))
            self._is_empty = False

    @property
    def value(self) -> str | None:
        return None if self._is_empty else self._hash.hexdigest()


def _take(
    answer: Answer, digest: _TextDigest, document: dict[str, Any], event: Event, key: str
) -> None:
    error = _error_of(document, event.kind)
    if error is not None:
        answer.error = answer.error or error
        return
    if responses.is_responses(document, event.kind):
        part = responses.read_responses(document, event.kind)
    else:
        part = read_chat(document, key)
    _take_counts(answer, part)
    for piece in part.pieces:
        digest.add(piece.content + piece.tool_name + piece.tool_arguments)
    if part.finish_reason is not None:
        answer.finish_reason = answer.finish_reason or part.finish_reason
        answer.stop_string = part.stop_string or answer.stop_string
    text = "".join(_streamed(piece) for piece in part.pieces)
    if text:
        answer.chunks.append(
            Chunk(
                stamp_s=event.stamp_s,
                width_s=event.width_s,
                text=text,
                has_reasoning=any(piece.reasoning for piece in part.pieces),
                has_answer=any(p.content.strip() or p.tool_arguments for p in part.pieces),
                has_finish=part.finish_reason is not None,
                reported_tokens=part.reported_tokens,
                logprob_entries=part.logprob_entries,
            )
        )


def _streamed(piece: Piece) -> str:
    return piece.reasoning + piece.summary + piece.content + piece.tool_name + piece.tool_arguments


def _take_counts(answer: Answer, part: Part) -> None:
    for name in COUNTS:
        value = getattr(part, name)
        if value is not None:
            setattr(answer, name, value)
    if answer.cached_tokens is None and part.server is not None:
        answer.cached_tokens = part.server.cached_tokens


def _error_of(document: dict[str, Any], kind: str) -> str | None:
    """Return the error that an event reports: an `error` member, an event of that kind, a failed
    response.
    """
    error = document.get("error")
    if error is None and responses.is_responses(document, kind):
        error = responses.error_of(document, kind)
    elif error is None and "error" in (kind, document.get("object"), document.get("type")):
        error = document  # vLLM before 0.6 sent {"object": "error", "message": ...}
    if isinstance(error, dict):
        error = error.get("message") or error.get("code") or error.get("type") or "no message"
    return None if error is None else _shorten(str(error))


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= ERROR_CHARACTERS else line[: ERROR_CHARACTERS - 1] + "…"
