"""Conversations are carried on with the model's own answers, which live in memory alone.

A turn of the prompts file has the whole history as it was logged. What is sent is the history as it
really went: the messages sent before, the answer that came, and what the file's line has after its
last answer. Texts are dropped with their session and are never written anywhere.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from teardown.load.document import Malformed, items_of, object_of, parse, text_of
from teardown.load.exchange import Exchange
from teardown.load.record import events_of
from teardown.records import Speech

Message = dict[str, Any]
ANSWERED: Final = "assistant"


class Piece(NamedTuple):
    """A piece of answer text and when it came, on the monotonic clock."""

    stamp_s: float
    text: str


def next_turn(history: list[Message], logged: list[Message]) -> list[Message]:
    """Return the messages to send for the line `logged`: all of it where nothing was said yet."""
    return history + _after_last_answer(logged) if history else logged


def answered(messages: list[Message], pieces: list[Piece]) -> list[Message]:
    """Return the history once the model has answered `messages`."""
    text = "".join(piece.text for piece in pieces)
    return [*messages, {"role": ANSWERED, "content": text}]


def _after_last_answer(logged: list[Message]) -> list[Message]:
    """Return what the user says in this turn; a line without an answer has only that."""
    answers = [i for i, message in enumerate(logged) if message.get("role") == ANSWERED]
    if answers:
        return logged[answers[-1] + 1 :]
    return [message for message in logged if message.get("role") != "system"]


def pieces_of(exchange: Exchange) -> list[Piece]:
    """Return the answer's text as it came, reasoning left out; a damaged event ends it."""
    try:
        return list(_pieces(exchange))
    except Malformed:
        return []


def _pieces(exchange: Exchange) -> Iterator[Piece]:
    if "event-stream" not in exchange.content_type:
        document = parse(exchange.body) or {}
        yield from _texts(document, "message", exchange.last_byte_s or 0.0)
        return
    for event in events_of(exchange, exchange.sent_s or 0.0):
        yield from _texts(parse(event.data) or {}, "delta", event.stamp_s)


def _texts(document: dict[str, Any], key: str, stamp_s: float) -> Iterator[Piece]:
    for choice in items_of(document, "choices")[:1]:
        text = text_of(object_of(choice, key), "content")
        if text:
            yield Piece(stamp_s, text)


def heard_until(pieces: list[Piece], speech: Speech) -> float | None:
    """Return when the answer has been played to its end; None for one without words.

    Word j is played once the words before it have been and it has begun to arrive:
    p(j) = max(p(j - 1), arrival(j)) + 60 / words_per_minute.
    """
    end_s, is_within_word = None, False
    for stamp_s, piece in pieces:
        new = len(piece.split())
        if new and is_within_word and not piece[0].isspace():
            new -= 1  # the first of them goes on with a word that was counted
        if new:
            end_s = max(end_s or stamp_s, stamp_s) + new * 60 / speech.words_per_minute
        is_within_word = not piece[-1].isspace()
    return end_s
