"""What is going to be sent, fixed before the run."""

from dataclasses import dataclass
from typing import ClassVar, Literal

# The kinds of one run; a sweep, a capacity search and a probe are several runs of these.
WorkloadKind = Literal["closed", "open", "ramp", "trace", "sessions", "voice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledRequest:
    """One request of a schedule.

    prompt: index of its line in the prompts file. intended_s: seconds from the start; None where
    it follows the request before it in its lane by `think_s`. lane: which user sends it, in the
    order of the list; requests of one session share a lane, so that a turn follows the end of the
    turn before it.
    """

    request_id: str
    prompt: int
    prompt_sha256: str
    session: str
    turn: int
    max_tokens: int
    lane: int
    intended_s: float | None = None
    think_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """How answers of a voice agent are heard: played at a pace, and answered after silence.

    The caller's own part of a turn (thinking, speaking, `endpointing_s`, the silence by which the
    agent knows that the caller has finished) is the `think_s` of the turn that follows.
    """

    words_per_minute: float
    endpointing_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Every request of one workload; same seed and prompts, same bytes. The salt is the run's.

    concurrency: users of a closed loop, calls of `voice`. rate_per_s: mean rate of an open loop.
    """

    SCHEMA: ClassVar[str] = "teardown.schedule/2"
    OLDER: ClassVar[tuple[str, ...]] = ("teardown.schedule/1",)  # without `speech`

    workload: str
    kind: WorkloadKind
    seed: int
    concurrency: int
    rate_per_s: float | None
    prompts_sha256: str
    requests: list[ScheduledRequest]
    speech: Speech | None = None

    @property
    def is_open(self) -> bool:
        """True when every request goes at a time of its own, whatever the others do."""
        return self.kind in ("open", "trace") or (
            self.kind == "ramp" and self.rate_per_s is not None
        )

    @property
    def is_live(self) -> bool:
        """True when the model's own answers become the history of the turns that follow."""
        return self.kind in ("sessions", "voice")

    @property
    def is_stationary(self) -> bool:
        """True when the load is meant to stay the same, so that a trend is a finding."""
        return self.kind in ("closed", "open")
