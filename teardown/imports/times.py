"""Times of one answer by DEFINITIONS.md, from what other tools keep of it."""

import itertools
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from teardown.records import Status

ONE_PIECE: Final = "not streamed: the answer came in one piece"
NO_GAPS: Final = "the file does not keep when each chunk came"
NO_COUNT: Final = "the file has no count of output tokens"
NO_FIRST: Final = (
    "chunks and tokens differ by more than 1, and the file does not say how many tokens the first "
    "chunk has"
)
NO_FURTHER: Final = "no token follows the first chunk"
UNFINISHED: Final = "the answer is not complete"
# What no file of another tool keeps of a request, by field of `Request`.
NEVER_KEPT: Final = {
    "connect_s": "the file does not tell connecting from sending",
    "stream_close_s": "the file does not keep when the stream closed",
    "receive_lag_s": "the tool took no kernel stamps",
    "finish_reason": "the file does not keep it",
}
# In the words of HTTP libraries, first match wins.
STATUS_BY_WORDS: Final[tuple[tuple[str, Status], ...]] = (
    ("never received a valid chunk", "empty"),
    ("too many requests", "refused"),
    ("service unavailable", "refused"),
    ("connection refused", "refused"),
    ("connectionrefused", "refused"),
    ("cannot connect", "refused"),
    ("connecterror", "refused"),
    ("timeout", "timeout"),
    ("timed out", "timeout"),
    ("disconnected", "cut"),
    ("connection reset", "cut"),
    ("payload is not completed", "cut"),
)


class Times(NamedTuple):
    """Values by field name of `Request`, and the reason of every one that is None."""

    values: dict[str, Any]
    reasons: dict[str, str]


def of_chunks(
    sent_s: float | None, stamps: Sequence[float], output_tokens: int | None, *, has_role: bool
) -> Times:
    """Return the times of an answer whose chunks came `stamps` seconds after the send.

    has_role: the first chunk of a chat is the role, with no text in it; where there are more chunks
    than tokens it is left out. sent_s None: the run's clock is unknown and chunk_s stays empty.
    """
    seen = list(stamps)
    if has_role and output_tokens is not None and len(seen) > max(output_tokens, 1):
        seen = seen[1:]
    if _is_one_piece(seen, output_tokens):
        names = ("ttft_s", "ttfo_s", "tpot_s", "max_gap_s", "first_chunk_tokens")
        return Times({"e2e_s": seen[-1] if seen else None}, dict.fromkeys(names, ONE_PIECE))
    values: dict[str, Any] = {"ttft_s": seen[0], "e2e_s": seen[-1]}
    values["chunk_s"] = [] if sent_s is None else [sent_s + stamp for stamp in seen]
    reasons = {"ttfo_s": "the file does not tell blank text from an answer"}
    if len(seen) > 1:
        values["max_gap_s"] = max(b - a for a, b in itertools.pairwise(seen))
    else:
        reasons["max_gap_s"] = "the answer is one chunk"
    pace = pace_of(seen[0], seen[-1], len(seen), output_tokens)
    return Times(values | pace.values, reasons | pace.reasons)


def _is_one_piece(stamps: Sequence[float], output_tokens: int | None) -> bool:
    """True where no TTFT can be told; one chunk of one token may well be a stream."""
    if len(stamps) > 1:
        return stamps[0] == stamps[-1]
    return not stamps or output_tokens is None or output_tokens > 1


def pace_of(
    first_s: float, last_s: float, num_chunks: int | None, output_tokens: int | None
) -> Times:
    """Return TPOT and the tokens of the first chunk, which is 1 where chunks are tokens.

    With one chunk fewer than tokens the end token was generated and not streamed.
    """
    names = ("tpot_s", "first_chunk_tokens")
    if output_tokens is None:
        return Times({}, dict.fromkeys(names, NO_COUNT))
    if num_chunks is None or abs(num_chunks - output_tokens) > 1:
        return Times({}, dict.fromkeys(names, NO_FIRST))
    visible = min(output_tokens, num_chunks)
    if visible <= 1:
        return Times({"first_chunk_tokens": 1}, {"tpot_s": NO_FURTHER})
    return Times({"first_chunk_tokens": 1, "tpot_s": (last_s - first_s) / (visible - 1)}, {})


def failed(times: Times) -> Times:
    """Return what may be kept of an answer that is not complete: no E2E, no TPOT."""
    kept = {k: v for k, v in times.values.items() if k not in ("e2e_s", "tpot_s")}
    return Times(kept, times.reasons | dict.fromkeys(("e2e_s", "tpot_s"), UNFINISHED))


def status_of(error: str) -> Status:
    """Return the class of a failure by the words that the tool kept of it."""
    folded = error.casefold()
    return next((status for words, status in STATUS_BY_WORDS if words in folded), "error")


def last_line(error: str) -> str:
    """Return the last line of an error, which says what a traceback before it led to."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
