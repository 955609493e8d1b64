"""Candidate changes, their trials behind the oracle, and the verdict."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from teardown.records.estimate import Estimate
from teardown.records.stack import LaunchSpec, Options, Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One change: options to set (None takes an option away) and what it is expected to do.

    predicted: factor by which the goal metric improves (1.0 = no change, above 1 = better).
    changes_answers: why the change may alter the answers; None where only the order of
    arithmetic changes. lever: the module of `tuning/modules` that proposed it.
    """

    candidate: str
    title: str
    lever: str
    changes: Options
    predicted: Estimate
    reason: str
    cause: str | None
    risk: Literal["low", "medium", "high"]
    changes_answers: str | None
    watch: str
    undo: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftAlone:
    """A setting that was looked at and is not changed, and why."""

    setting: str
    value: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Candidates, best predicted first, and the settings that are left alone."""

    SCHEMA: ClassVar[str] = "teardown.plan/1"

    run: str
    goal_metric: str
    at_least: float
    candidates: list[Candidate]
    left_alone: list[LeftAlone]
    notes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleCheck:
    """One comparison of the oracle: what was measured, its band, and whether it holds."""

    name: str
    value: float | None
    band: float | None
    holds: bool
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleResult:
    """The accuracy gate on one stack, against the stored reference."""

    passed: bool
    reference_sha256: str
    num_prompts: int
    num_tokens: int
    checks: list[OracleCheck]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two runs of one schedule, in the order they were made; values are the goal metric's.

    window: both values come from it; the whole run where a plateau holds too few requests.
    """

    run_before: str
    run_after: str
    before: float | None
    after: float | None
    first: Literal["before", "after"]
    equal_work: float | None
    excluded: str | None = None
    window: Literal["plateau", "whole"] = "plateau"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One candidate (or the bundle of those kept) against the original stack.

    effect: improvement factor of the goal metric (above 1 = better), by run pairs. secondary: the
    same for the other metrics of the report. decision and `because` say what became of it.
    """

    SCHEMA: ClassVar[str] = "teardown.trial/1"

    trial: str
    kind: Literal["screen", "proof"]
    candidates: list[str]
    changes: Options
    stack: Stack | None
    oracle: OracleResult | None
    pairs: list[Pair]
    effect: Estimate | None
    secondary: dict[str, Estimate]
    state: Literal["planned", "running", "done"]
    decision: Literal["kept", "rejected", "no_change", "failed", "pending"]
    because: str
    started_unix_s: float
    ended_unix_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """One number of the first screen, before and after.

    change: the improvement factor over run pairs, above 1 = better, whichever way is better.
    """

    metric: str
    label: str
    unit: str
    better: Literal["higher", "lower"]
    before: Estimate | None
    after: Estimate | None
    change: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRecord:
    """What the engagement ends with; `accepted` is None when no change helps."""

    SCHEMA: ClassVar[str] = "teardown.verdict/1"

    outcome: Literal["improved", "no_change_helps", "proposed_only"]
    sentence: str
    goal_metric: str
    at_least: float
    goal_reached: bool | None
    effect: Estimate | None
    noise_floor: Estimate | None
    headlines: list[Headline]
    kept: list[str]
    rejected: dict[str, str]
    proof_trial: str | None
    original: Stack
    accepted: Stack | None
    launch: LaunchSpec | None
    oracle_sha256: str | None
    notes: list[str] = field(default_factory=list)
