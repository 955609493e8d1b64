"""Tokens are counted from what the server reports, else by a tokenizer, else they are None.

n (visible tokens) = output tokens, less reasoning that was not streamed, less the end token where
one was generated. n_first = tokens of the first chunk. TPOT = (last - first) / (n - n_first).
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from teardown.load.answer import Answer

# Reasons with which an end token is generated, unless a stop string was hit.
END_TOKEN_REASONS: Final = frozenset({"stop", "tool_calls", "function_call"})
NO_USAGE: Final = "the server reported no usage, and there is no tokenizer to count with"
CHUNKS_ARE_NOT_TOKENS: Final = (
    "chunks and tokens differ by more than 1, and neither usage per chunk nor log-probabilities "
    "say how many tokens the first chunk has"
)


class TokenCounts(NamedTuple):
    """n and n_first; `reason` says why one is None."""

    visible: int | None
    first: int | None
    reason: str


def count_texts(answer: Answer, count: Callable[[str], int]) -> None:
    """Count what the server left out: all tokens of the joined text, and those of the first chunk.

    The joined text is counted once: counted chunk by chunk, a token that spans two would be two.
    """
    if not answer.chunks:
        return
    answer.first_tokens = count(answer.chunks[0].text)
    if answer.output_tokens is None:
        answer.output_tokens, answer.is_counted = count(answer.text), True


def count_tokens(answer: Answer) -> TokenCounts:
    """Return n and n_first by the strongest evidence: usage per chunk, log-probabilities, a
    tokenizer's count of the first chunk, equal counts.

    Without a count per chunk, the end token is taken off after a natural stop, unless there are
    exactly as many chunks as tokens: then every token was seen, and none of them was an end token.
    A tokenizer's count of the text has neither hidden reasoning nor an end token in it.
    """
    if answer.output_tokens is None:
        return TokenCounts(None, None, NO_USAGE)
    has_end_token = answer.finish_reason in END_TOKEN_REASONS and answer.stop_string is None
    is_hidden = bool(answer.reasoning_tokens) and not answer.has_reasoning
    hidden = (answer.reasoning_tokens or 0) if is_hidden else 0
    chunks = answer.chunks
    if chunks:
        end_token = 1 if has_end_token and chunks[-1].has_finish else 0
        first, last = chunks[0].reported_tokens, chunks[-1].reported_tokens
        if len(chunks) > 1 and first is not None and last is not None and hidden < first <= last:
            return TokenCounts(last - hidden - end_token, first - hidden, "")
        entries = [chunk.logprob_entries for chunk in chunks]
        known = [count for count in entries if count is not None]
        if len(known) == len(chunks):
            return TokenCounts(sum(known) - end_token, known[0], "")
    if answer.is_counted:
        return TokenCounts(answer.output_tokens, answer.first_tokens, "")
    visible = max(answer.output_tokens - hidden, 0)
    if has_end_token and len(chunks) != visible:
        visible = max(visible - 1, 0)
    if answer.first_tokens is not None:
        return TokenCounts(visible, answer.first_tokens, "")
    if abs(len(chunks) - visible) <= 1:
        return TokenCounts(visible, 1, "")
    return TokenCounts(visible, None, CHUNKS_ARE_NOT_TOKENS)
