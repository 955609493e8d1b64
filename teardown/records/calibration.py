"""What this host's load process adds to its own measurements, measured against a known server."""

import math
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Percentiles of a lag or an error of the load process itself, seconds, by nearest rank."""

    n: int
    p50: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamShape:
    """The load that one process is to carry: how many streams, how dense, and how large.

    streams: answers that arrive at the same time. chunks_per_s: of one stream. chunk_bytes: of one
    event on the wire. prompt_bytes: of one request's text.
    """

    streams: int
    chunks_per_s: float
    chunk_bytes: int = 300
    prompt_bytes: int = 1000

    @property
    def events_per_s(self) -> float:
        """Events a second of all streams."""
        return self.streams * self.chunks_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """One replay of `shape` by the null server to the load process, on the host and boot named.

    The server says when each event was sent and when each request arrived, so every error is a
    difference to the truth: `ttft_overstatement_s` of TTFT, `stamp_error_s` of each chunk's time,
    `gap_error_s` of each gap (absolute). `receive_lag_s` is read time less kernel stamp, None where
    the kernel gives no stamps. `server_core`: where the server was pinned, None where the two
    shared what there was. `ceiling_events_per_s`: what one process carries at `ceiling_share` of a
    core, at least: under a light load the fixed costs of a process weigh on few events. `expected`:
    the load of the run that this calibration stands for, in all processes, and `workers_needed`
    for it.
    """

    SCHEMA: ClassVar[str] = "teardown.calibration/1"

    measured_unix_s: float
    boot_id: str
    shape: StreamShape
    elapsed_s: float
    num_requests: int
    num_events: int
    ttft_overstatement_s: Spread
    stamp_error_s: Spread
    gap_error_s: Spread
    receive_lag_s: Spread | None
    cpu_s_per_event: float
    ceiling_events_per_s: float
    ceiling_share: float
    server_core: int | None
    priority: str
    expected: StreamShape
    workers_needed: int

    def workers_for(self, events_per_s: float) -> int:
        """Return how many load processes `events_per_s` needs, each below the ceiling."""
        return max(1, math.ceil(events_per_s / self.ceiling_events_per_s))
