"""What is going to be sent, fixed before the run."""

from dataclasses import dataclass
from typing import ClassVar, Literal

WorkloadKind = Literal["closed", "open"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledRequest:
    """One request of a schedule.

    prompt: index of its line in the prompts file. intended_s: seconds from the start, open loops
    only. lane: which closed-loop user sends it, in the order of the list; requests of one session
    share a lane, so that a turn follows the end of the turn before it.
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
class Schedule:
    """Every request of one workload; same seed and prompts, same bytes. The salt is the run's."""

    SCHEMA: ClassVar[str] = "teardown.schedule/1"

    workload: str
    kind: WorkloadKind
    seed: int
    concurrency: int
    rate_per_s: float | None
    prompts_sha256: str
    requests: list[ScheduledRequest]
