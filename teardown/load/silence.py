"""What a caller hears of latency: the silence of one turn of a call.

silence = endpointing + client wait + TTFO + waiting for words in the middle of the reply

The last term is an estimate, because texts are not kept: tokens are taken as spread evenly over the
chunks, and a word as 4/3 tokens (OpenAI's rule of thumb for English). A chunk of the answer is
played from max(end of the one before, its arrival); what arrives later than that end is silence.
"""

from collections.abc import Sequence
from typing import Final

from teardown.records import Request, Speech

TOKENS_PER_WORD: Final = 4 / 3


def silence_of(request: Request, speech: Speech) -> float | None:
    """Return the silence of a turn in seconds; None where its TTFO is not known."""
    if request.ttfo_s is None:
        return None
    wait_s = max(request.client_wait_s or 0.0, 0.0)
    answer_s = (request.sent_s or 0.0) + request.ttfo_s
    stalled_s = stalled(answer_s, request.output_tokens or 0, request.chunk_s, speech)
    return speech.endpointing_s + wait_s + request.ttfo_s + stalled_s


def stalled(
    answer_s: float, output_tokens: float, chunk_s: Sequence[float], speech: Speech
) -> float:
    """Return the waiting for words in an answer whose text begins at `answer_s`, in seconds."""
    chunks = [stamp_s for stamp_s in chunk_s if stamp_s >= answer_s]
    if not output_tokens or not chunks:
        return 0.0
    tokens_per_s = speech.words_per_minute * TOKENS_PER_WORD / 60
    played_s = output_tokens / len(chunk_s) / tokens_per_s
    end_s, stalled_s = chunks[0] + played_s, 0.0
    for arrived_s in chunks[1:]:
        stalled_s += max(arrived_s - end_s, 0.0)
        end_s = max(arrived_s, end_s) + played_s
    return stalled_s
