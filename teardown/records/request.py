"""One request, as sent and as answered."""

from dataclasses import dataclass, field
from typing import Literal

Status = Literal["ok", "error", "cut", "empty", "timeout", "refused", "unsent", "aborted"]

FAILED: frozenset[Status] = frozenset(
    {"error", "cut", "empty", "timeout", "refused", "unsent", "aborted"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTimings:
    """What the server itself says of one request (llama.cpp's `timings`); seconds and tokens."""

    prefill_s: float | None = None
    decode_s: float | None = None
    prefill_tokens: int | None = None
    decode_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request; `intended_s`, `sent_s` and `chunk_s` count from the run's start, the other
    times from the send. A value that cannot be known is None; `reasons` says why by field name.
    """

    request_id: str
    attempt: int = 1
    status: Status
    finish_reason: str | None = None
    http_status: int | None = None
    replica: str | None = None
    worker: str = "0"
    session: str | None = None
    turn: int = 0
    salt: str | None = None
    intended_s: float | None = None
    connect_s: float | None = None
    sent_s: float | None = None
    ttft_s: float | None = None
    ttfo_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    stream_close_s: float | None = None
    max_gap_s: float | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    first_chunk_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens_source: Literal["usage", "tokenizer"] | None = None
    text_sha256: str | None = None
    chunk_s: list[float] = field(default_factory=list)
    stamp_width_s: list[float] = field(default_factory=list)
    receive_lag_s: float | None = None
    error: str | None = None
    server: ServerTimings | None = None
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def is_failed(self) -> bool:
        """True for everything but a complete answer."""
        return self.status in FAILED

    @property
    def client_wait_s(self) -> float | None:
        """Sent less intended; None where the schedule named no time."""
        if self.sent_s is None or self.intended_s is None:
            return None
        return self.sent_s - self.intended_s

    @property
    def e2e_from_intended_s(self) -> float | None:
        """Client wait plus E2E; E2E alone where the schedule named no time."""
        if self.e2e_s is None:
            return None
        return self.e2e_s + max(self.client_wait_s or 0.0, 0.0)
