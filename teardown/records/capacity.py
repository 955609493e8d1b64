"""How much a stack carries within its promise: the levels that were tried, and what they showed."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from teardown.records.estimate import Estimate, Quantiles
from teardown.records.run import Verdict

# kept: the lower bound of attainment meets the promise. missed: it does not, or the stack refused
# or fell behind. unjudged: the run is invalid for another reason, so it says nothing.
Outcome = Literal["kept", "missed", "unjudged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level of load, a run of its own. `asked` counts in the unit of its result."""

    asked: float
    run: str
    verdict: Verdict
    outcome: Outcome
    attainment: Estimate | None
    why: str
    ttfo_s: Quantiles | None = None
    silence_s: Quantiles | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limiter:
    """What held the stack back just above its capacity, as the diagnosis of that run says."""

    run: str
    time_class: str
    cause: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityResult:
    """The largest level that kept the promise, and the smallest that did not: the interval.

    `low` is None where no level kept it, `high` where none missed it; `reason` then says why, and
    `no_limiter` why no limiter is named.
    """

    stack: str
    workload: str
    unit: Literal["requests_per_s", "calls"]
    promised: float
    low: float | None
    high: float | None
    is_complete: bool
    settings_sha256: str
    levels: list[Level] = field(default_factory=list)
    limiter: Limiter | None = None
    no_limiter: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Every capacity of an engagement: one result a stack and workload, the newest."""

    SCHEMA: ClassVar[str] = "teardown.capacity/1"

    results: list[CapacityResult] = field(default_factory=list)
