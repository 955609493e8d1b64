"""One measured run: what was run, on what, whether it may be believed, and its summary."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from teardown.records.estimate import Estimate, Quantiles
from teardown.records.stack import Stack

Level = Literal["ok", "warn", "invalid"]
Verdict = Literal["valid", "warnings", "invalid"]
Regime = Literal["cold", "steady", "production"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidityReason:
    """One check of DEFINITIONS.md; `value` is None where it cannot be measured, `text` says why."""

    code: str
    level: Level
    measure: str
    value: float | None
    warn: float
    invalid: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBar:
    """The most that the client adds to a TTFT and to a gap (p99, seconds); None: cannot be known.

    `method` says from what: the run's own receive lag, the calibration, or both.
    """

    ttft_s: float | None
    gap_s: float | None
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """The certificate of one run: the worst level of its reasons, and every check by name.

    `error_bar` is None in records that are older than it.
    """

    verdict: Verdict
    reasons: list[ValidityReason]
    checks: list[ValidityReason]
    error_bar: ErrorBar | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Statistics of the requests that were sent in one window, or in flight when it began.

    Seconds from the run's start. silence_s: what a caller waits in a turn, for `voice` alone.
    """

    start_s: float
    end_s: float
    num_requests: int
    num_failed: int
    requests_per_s: float | None
    output_tokens_per_s: float | None
    prompt_tokens: int
    cached_tokens: int | None
    output_tokens: int
    ttft_s: Quantiles
    tpot_s: Quantiles
    e2e_s: Quantiles
    client_wait_s: Quantiles
    max_gap_s: Quantiles
    attainment: Estimate | None
    goodput_per_s: float | None
    ttfo_s: Quantiles | None = None
    silence_s: Quantiles | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Both windows of one run: the plateau (load as asked) and the whole run."""

    num_by_status: dict[str, int]
    plateau: Window
    whole: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of a run without interruption; an interrupted run has several. Unix seconds."""

    started_unix_s: float
    ended_unix_s: float
    ended: Literal["complete", "interrupted", "killed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run. `stack` names it in the engagement ("before", "after", a candidate id)."""

    SCHEMA: ClassVar[str] = "teardown.run/1"

    run: str
    stack: str
    workload: str
    regime: Regime
    salt: str
    seed: int
    schedule_sha256: str
    target: Stack
    segments: list[Segment]
    validity: Validity
    summary: Summary | None
    simulated: bool = False
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Where a run was made: versions, host, clock. Free form by design, one value per name."""

    SCHEMA: ClassVar[str] = "teardown.environment/1"

    values: dict[str, Any]
