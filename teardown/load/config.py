"""What a load process is told, what it says while it runs, and what it leaves behind."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from teardown.errors import UsageError
from teardown.records import Spread

SaltField = Literal["prompt", "cache_salt"]
Ended = Literal["complete", "interrupted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopIf:
    """When to stop by ourselves: failed over finished, once `after` requests have finished."""

    error_ratio: float
    after: int = 20

    def because(self, num_failed: int, num_done: int) -> str | None:
        """Return why the run stops at these counts; None where it goes on."""
        if num_done < self.after or num_failed <= self.error_ratio * num_done:
            return None
        return (
            f"{num_failed} of {num_done} requests failed, "
            f"more than the {self.error_ratio:g} allowed"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadConfig:
    """One run of one schedule, or the rest of it.

    url ends where the paths of the API begin (".../v1"). salt None: prompts go as they are.
    salt_field: "prompt" puts `[<salt>] ` before the prompt, "cache_salt" sends it as a field of the
    body. api_key_env, api_key_file: where the key is, never the key; a value of extra_headers may
    be `env:NAME` or `file:PATH` likewise. tokenizer: a file to count tokens with where the server
    does not. skip: request ids that an earlier attempt has finished. time_base_s is added to every
    time that counts from the run's start, so that a resumed run goes on where it stopped. ramp_s:
    closed loops start their lanes evenly over it, the first one `ramp_from_s` after the start.
    max_in_flight caps an open loop; waiting for the cap is client wait. A closed loop is capped by
    the schedule's concurrency. workers: the load processes that share the schedule. listen: None
    has them all on this host, an address (HOST:PORT) waits for workers that join there. more_runs:
    workers stay for another run. max_requests_per_s: closed loops and conversations send no faster.
    """

    SCHEMA: ClassVar[str] = "teardown.load_config/1"

    url: str
    model: str
    schedule_path: str
    prompts_path: str
    journal_path: str
    result_path: str
    salt: str | None = None
    salt_field: SaltField = "prompt"
    timeout_s: float = 600.0
    api_key_env: str | None = None
    api_key_file: str | None = None
    tokenizer: str | None = None
    extra_headers: dict[str, str] = field(default_factory=dict)
    extra_body: dict[str, Any] = field(default_factory=dict)
    ramp_s: float = 0.0
    ramp_from_s: float = 0.0
    max_in_flight: int | None = None
    max_requests_per_s: float | None = None
    skip: list[str] = field(default_factory=list)
    attempt: int = 1
    time_base_s: float = 0.0
    stop_if: StopIf | None = None
    worker: str = "0"
    workers: int = 1
    listen: str | None = None
    more_runs: bool = False
    parent_pid: int | None = None

    @property
    def is_shared(self) -> bool:
        """True where a master deals the schedule out to workers."""
        return self.workers > 1 or self.listen is not None

    def __post_init__(self) -> None:
        """Refuse values that nothing can be sent with."""
        if self.timeout_s <= 0:
            raise UsageError(f"timeout_s is {self.timeout_s:g}; it must be above 0")
        if self.ramp_s < 0:
            raise UsageError(f"ramp_s is {self.ramp_s:g}; it must not be below 0")
        if self.max_in_flight is not None and self.max_in_flight < 1:
            raise UsageError(f"max_in_flight is {self.max_in_flight}; it must be at least 1")
        if self.max_requests_per_s is not None and self.max_requests_per_s <= 0:
            raise UsageError(
                f"max_requests_per_s is {self.max_requests_per_s:g}; it must be above 0"
            )
        if self.workers < 1:
            raise UsageError(f"{self.workers} load workers cannot send; ask for at least 1")


def stop_path(config: LoadConfig) -> Path:
    """Return where the reason lies for which a process is asked (SIGUSR1) to stop by itself."""
    return Path(config.result_path).with_suffix(".stop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is; one line a second. `errors` counts every request that failed.

    says: a sentence for the person who waits, such as that a worker has joined.
    """

    done: int
    total: int
    in_flight: int
    errors: int
    elapsed_s: float
    says: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerResult:
    """One worker's part in a run that several shared.

    clock_offset_s: its monotonic clock less the master's, from the quickest round trip before the
    start; clock_error_s: half of that round trip, the most that the offset can be wrong.
    clock_drift_s: how far the offset had moved at the end, as well as round trips show it.
    lost: why nothing more came from it; None where it stayed to the end. `counts` holds the
    records that the master has.
    """

    worker: str
    host: str
    total: int
    counts: dict[str, int]
    lost: str | None
    clock_offset_s: float
    clock_error_s: float
    clock_drift_s: float
    cpu_s: float | None = None
    receive_lag: Spread | None = None
    priority: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """How a load process ended and what it cost; the measurements are in the journal.

    counts: requests by status. receive_lag: read time less kernel stamp, per read; None where the
    kernel gives no stamps. send_lag: sent less intended, per request. clock_offset_moved_s: how far
    REALTIME - MONOTONIC moved; clock_events counts the reads that met a step. cpu_s: processor time
    of the process while it sent; priority: how promptly it was let run. stopped_because is None
    unless it stopped by itself.

    Where workers shared the run: counts, connections, reads, events and cpu_s are sums;
    peak_in_flight is the sum of the workers' peaks, which the run never exceeded; lags, clock and
    priority are those of the worst worker. notes: what a reader of the run must know about it.
    """

    SCHEMA: ClassVar[str] = "teardown.load_result/1"

    journal_path: str
    ended: Ended
    stopped_because: str | None
    attempt: int
    counts: dict[str, int]
    total: int
    elapsed_s: float
    peak_in_flight: int
    connections: int
    retries: int
    reads: int
    events: int
    kernel_stamps: bool
    receive_lag: Spread | None
    send_lag: Spread | None
    clock_offset_moved_s: float
    clock_events: int
    cpu_s: float
    priority: str = "default"
    workers: list[WorkerResult] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
