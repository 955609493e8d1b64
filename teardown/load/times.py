"""The times of one answer by DEFINITIONS.md; every one that cannot be known carries its reason.

All are seconds from the send, TPOT seconds per token. What was measured before a failure is kept;
E2E and TPOT belong to complete answers alone.
"""

import itertools
from typing import Any, Final, NamedTuple

from teardown.load.answer import Answer
from teardown.load.exchange import Exchange
from teardown.load.tokens import NO_USAGE, TokenCounts, count_tokens

NOT_STREAMED: Final = "not streamed: the answer came in one piece"
ONE_READ: Final = "not streamed: all chunks came in one read"
ONE_BURST: Final = "not streamed: all chunks came in one burst, faster than any engine writes"
ONE_CHUNK: Final = "the answer is one chunk"
NO_CHUNKS: Final = "no content arrived"
NO_ANSWER_TEXT: Final = "no answer text that is not blank arrived"
NO_FURTHER_TOKEN: Final = "no token follows the first chunk"
NOT_WHOLE: Final = "the answer is not complete"
NOT_REPORTED: Final = "the server does not report it"
NOT_SENT: Final = "nothing was sent"
# A buffer that is let go arrives in several reads, some microseconds apart. The fastest stream that
# is publicly claimed, 1,792 tokens a second (MISSION.md, VibeQwen), has 558 us between its tokens.
FASTEST_GAP_S: Final = 0.0001
NAMES: Final = ("ttft_s", "ttfo_s", "tpot_s", "e2e_s", "max_gap_s", "first_chunk_tokens")


class Times(NamedTuple):
    """Values by field name of `Request`, and the reason of every one that is None."""

    values: dict[str, Any]
    reasons: dict[str, str]


def measure(exchange: Exchange, answer: Answer, *, is_ok: bool) -> Times:
    """Return every time of `answer`; `is_ok` says that it is complete."""
    values: dict[str, Any] = dict.fromkeys((*NAMES, "stream_close_s"))
    reasons = _missing_counts(answer)
    sent_s = exchange.sent_s
    if sent_s is None or exchange.closed_s is None:
        reasons["stream_close_s"] = NOT_WHOLE if sent_s is not None else NOT_SENT
    else:
        values["stream_close_s"] = exchange.closed_s - sent_s
    if sent_s is None or not answer.chunks:
        return Times(
            values, reasons | dict.fromkeys(NAMES, NOT_SENT if sent_s is None else NO_CHUNKS)
        )
    tokens = count_tokens(answer)
    values["first_chunk_tokens"] = tokens.first
    if tokens.first is None:
        reasons["first_chunk_tokens"] = tokens.reason
    not_streamed = _why_not_streamed(answer, tokens.visible, is_ok)
    last_s = answer.chunks[-1].stamp_s
    if not is_ok:
        reasons["e2e_s"] = NOT_WHOLE
    elif not_streamed is None:
        values["e2e_s"] = last_s - sent_s
    else:
        values["e2e_s"] = (exchange.last_byte_s or last_s) - sent_s
    if not_streamed is not None:
        return Times(values, reasons | dict.fromkeys((*NAMES[:3], "max_gap_s"), not_streamed))
    _measure_stream(Times(values, reasons), answer, sent_s, tokens, is_ok)
    return Times(values, reasons)


def _measure_stream(
    times: Times, answer: Answer, sent_s: float, tokens: TokenCounts, is_ok: bool
) -> None:
    values, reasons = times
    stamps = [chunk.stamp_s for chunk in answer.chunks]
    values["ttft_s"] = stamps[0] - sent_s
    answered_s = next((chunk.stamp_s for chunk in answer.chunks if chunk.has_answer), None)
    if answered_s is None:
        reasons["ttfo_s"] = NO_ANSWER_TEXT
    else:
        values["ttfo_s"] = answered_s - sent_s
    if len(stamps) == 1:
        reasons |= dict.fromkeys(("tpot_s", "max_gap_s"), ONE_CHUNK)
        return
    values["max_gap_s"] = max(late - early for early, late in itertools.pairwise(stamps))
    if not is_ok:
        reasons["tpot_s"] = NOT_WHOLE
    elif tokens.visible is None or tokens.first is None:
        reasons["tpot_s"] = tokens.reason
    elif tokens.visible <= tokens.first:
        reasons["tpot_s"] = NO_FURTHER_TOKEN
    else:
        values["tpot_s"] = (stamps[-1] - stamps[0]) / (tokens.visible - tokens.first)


def _why_not_streamed(answer: Answer, visible: int | None, is_ok: bool) -> str | None:
    """Return why it is no stream; one chunk of one token may well be one."""
    chunks = answer.chunks
    if not answer.is_stream:
        return NOT_STREAMED
    if len(chunks) > 1:
        span_s = chunks[-1].stamp_s - chunks[0].stamp_s
        if span_s == 0:
            return ONE_READ
        return ONE_BURST if span_s < FASTEST_GAP_S * (len(chunks) - 1) else None
    if is_ok and visible is None:
        return f"{ONE_CHUNK} of an unknown number of tokens: it may not have been streamed"
    return ONE_READ if is_ok and visible is not None and visible > 1 else None


def _missing_counts(answer: Answer) -> dict[str, str]:
    reasons: dict[str, str] = {}
    if answer.output_tokens is None:
        reasons |= dict.fromkeys(("output_tokens", "output_tokens_source"), NO_USAGE)
    for name in ("prompt_tokens", "reasoning_tokens", "cached_tokens", "server"):
        if getattr(answer, name) is None:
            reasons[name] = NOT_REPORTED
    return reasons
