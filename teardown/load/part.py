"""What one event of an answer says, whichever of the three endpoints it came from."""

from dataclasses import dataclass, field
from typing import NamedTuple

from teardown.records import ServerTimings


class Piece(NamedTuple):
    """Texts of one event, or of one choice of it, by kind; "" where it has none of that kind.

    `summary`: what is shown in place of reasoning; the tokens of the reasoning are not streamed.
    """

    content: str = ""
    reasoning: str = ""
    summary: str = ""
    tool_name: str = ""
    tool_arguments: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One event, or a whole reply that is not streamed; None where it says nothing.

    `reported_tokens`: output tokens so far, as the server counts them; `logprob_entries`: tokens of
    this event by its log-probabilities.
    """

    pieces: list[Piece] = field(default_factory=list)
    finish_reason: str | None = None
    stop_string: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    server: ServerTimings | None = None
    reported_tokens: int | None = None
    logprob_entries: int | None = None
