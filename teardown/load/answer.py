"""One answer is read from its events: what was said is hashed, when and how much is kept.

Formulas are those of DEFINITIONS.md. A chunk is an event with content, reasoning or a tool call
that is not the empty string; a role, an empty delta and a usage report are not chunks. Times are
the stamps of the events, in seconds.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from teardown.load.document import (
    Malformed,
    count_of,
    items_of,
    object_of,
    parse,
    seconds_of,
    text_of,
)
from teardown.load.sse import Event
from teardown.records import ServerTimings

DONE: Final = "[DONE]"
ERROR_CHARACTERS: Final = 200  # an error may quote the prompt; its head says enough


class Chunk(NamedTuple):
    """One piece of an answer. `reported_tokens`: all tokens so far, as the server counts them;
    `logprob_entries`: tokens of this chunk by its log-probabilities; both None where absent.
    """

    stamp_s: float
    width_s: float
    has_reasoning: bool
    has_answer: bool
    has_finish: bool
    reported_tokens: int | None
    logprob_entries: int | None


@dataclass(slots=True, kw_only=True)
class Answer:
    """What one reply said of itself; counts are None where it said nothing."""

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

    @property
    def is_whole(self) -> bool:
        """True when the reply said that it ended: a finish reason, or `[DONE]`."""
        return self.finish_reason is not None or self.is_done

    @property
    def has_reasoning(self) -> bool:
        """True when reasoning was streamed."""
        return any(chunk.has_reasoning for chunk in self.chunks)


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


class _Piece(NamedTuple):
    """The texts of one choice's delta."""

    content: str
    reasoning: str
    tool_name: str
    tool_arguments: str


def _take(
    answer: Answer, digest: _TextDigest, document: dict[str, Any], event: Event, key: str
) -> None:
    error = _error_of(document, event.kind)
    if error is not None:
        answer.error = answer.error or error
        return
    reported = _take_counts(answer, document)
    choices = items_of(document, "choices")
    pieces = [_piece(choice, key) for choice in choices]
    finish = False
    for choice, piece in zip(choices, pieces, strict=True):
        digest.add(piece.content)
        digest.add(piece.tool_name)
        digest.add(piece.tool_arguments)
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            finish = True
            answer.finish_reason = answer.finish_reason or reason
            stop = choice.get("stop_reason")  # vLLM: the stop string that was hit, or a token's id
            answer.stop_string = stop if isinstance(stop, str) else answer.stop_string
    if any(any(piece) for piece in pieces):
        answer.chunks.append(
            Chunk(
                stamp_s=event.stamp_s,
                width_s=event.width_s,
                has_reasoning=any(piece.reasoning for piece in pieces),
                has_answer=any(p.content.strip() or p.tool_arguments for p in pieces),
                has_finish=finish,
                reported_tokens=reported,
                logprob_entries=_logprob_entries(choices),
            )
        )


def _piece(choice: dict[str, Any], key: str) -> _Piece:
    delta = choice.get(key)
    if delta is None:  # the completions endpoint has the text in the choice itself
        return _Piece(text_of(choice, "text"), "", "", "")
    if not isinstance(delta, dict):
        raise Malformed(f"{key} is not an object")
    functions = [object_of(call, "function") for call in items_of(delta, "tool_calls")]
    if delta.get("function_call") is not None:
        functions.append(object_of(delta, "function_call"))
    return _Piece(
        content=text_of(delta, "content") + text_of(delta, "refusal"),
        reasoning=text_of(delta, "reasoning") or text_of(delta, "reasoning_content"),
        tool_name="".join(text_of(function, "name") for function in functions),
        tool_arguments="".join(text_of(function, "arguments") for function in functions),
    )


def _take_counts(answer: Answer, document: dict[str, Any]) -> int | None:
    """Take usage and timings; return the tokens so far, where this event reports them."""
    usage = object_of(document, "usage")
    answer.prompt_tokens = _or(count_of(usage, "prompt_tokens"), answer.prompt_tokens)
    answer.output_tokens = _or(count_of(usage, "completion_tokens"), answer.output_tokens)
    answer.reasoning_tokens = _or(
        count_of(object_of(usage, "completion_tokens_details"), "reasoning_tokens"),
        answer.reasoning_tokens,
    )
    timings = object_of(document, "timings")  # llama.cpp
    answer.cached_tokens = _or(
        count_of(object_of(usage, "prompt_tokens_details"), "cached_tokens"),
        _or(answer.cached_tokens, count_of(timings, "cache_n")),
    )
    if timings:
        answer.server = ServerTimings(
            prefill_s=seconds_of(timings, "prompt_ms"),
            decode_s=seconds_of(timings, "predicted_ms"),
            prefill_tokens=count_of(timings, "prompt_n"),
            decode_tokens=count_of(timings, "predicted_n"),
            cached_tokens=count_of(timings, "cache_n"),
        )
    return count_of(usage, "completion_tokens") or count_of(timings, "predicted_n") or None


def _logprob_entries(choices: list[dict[str, Any]]) -> int | None:
    """Tokens of one event by its log-probabilities, chat (`content`) or completions (`tokens`)."""
    counts = []
    for choice in choices:
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict):
            entries = logprobs.get("content") or logprobs.get("tokens")
            counts.append(len(entries) if isinstance(entries, list) else 0)
    return sum(counts) or None


def _error_of(document: dict[str, Any], kind: str) -> str | None:
    """Return the error that an event reports: an `error` member, or an event of that kind."""
    error = document.get("error")
    if error is None and (kind == "error" or document.get("object") == "error"):
        error = document  # vLLM before 0.6 sent {"object": "error", "message": ...}
    if isinstance(error, dict):
        error = error.get("message") or error.get("code") or error.get("type") or "no message"
    return None if error is None else _shorten(str(error))


def _or(value: int | None, other: int | None) -> int | None:
    return other if value is None else value


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= ERROR_CHARACTERS else line[: ERROR_CHARACTERS - 1] + "…"
