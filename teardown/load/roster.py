"""The workers of one run as their master knows them: who they are, what came, how clocks stand."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from teardown.load.messages import Done, Failed, Hello, Pulse

NUM_SAMPLES: Final = 8  # round trips before the start, of which the quickest one counts
NUM_RECENT: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One round trip: the worker's clock less ours, wrong by at most half of the trip. Seconds."""

    offset_s: float
    error_s: float


@dataclass(slots=True)
class ClockOffset:
    """A worker's monotonic clock less the master's, from the quickest of several round trips.

    The offset of a trip is exact where both ways take the same time, and wrong by at most half of
    the trip where all of it went into one way (Cristian, 1989).
    """

    count: int = 0
    at_start: Sample | None = None
    _recent: deque[Sample] = field(default_factory=lambda: deque(maxlen=NUM_RECENT))

    def add(self, pulse: Pulse, heard_s: float) -> None:
        """Take the answer `pulse` that was heard at `heard_s` on our clock."""
        trip_s = heard_s - pulse.sent_s
        middle_s = (heard_s + pulse.sent_s) / 2
        self.count += 1
        self._recent.append(Sample(offset_s=pulse.worker_s - middle_s, error_s=trip_s / 2))

    def fix(self) -> Sample:
        """Settle the offset for the start by the newest trips, because clocks drift."""
        self.at_start = min(self._recent, key=lambda sample: sample.error_s)
        return self.at_start

    @property
    def drift_s(self) -> float:
        """How far the offset has moved from that of the start, by the quickest recent trip."""
        if self.at_start is None or not self._recent:
            return 0.0
        latest = min(self._recent, key=lambda sample: sample.error_s)
        return latest.offset_s - self.at_start.offset_s


@dataclass(slots=True, kw_only=True)
class Member:
    """One worker. received: its newest batch in order; taken: the newest one on the disk.

    total: requests that are its to send. lost: why nothing more is expected from it.
    """

    node: str
    name: str
    hello: Hello
    heard_s: float
    process: Any = None  # of our own host, where we started it
    clock: ClockOffset = field(default_factory=ClockOffset)
    is_ready: bool = False
    total: int = 0
    received: int = 0
    taken: int = 0
    done: Done | None = None
    failed: Failed | None = None
    lost: str | None = None

    @property
    def label(self) -> str:
        """How messages to people name it."""
        return f"worker {self.name} on {self.hello.host}"

    @property
    def is_finished(self) -> bool:
        """True when everything it sent has come."""
        return self.done is not None and self.received == self.done.last
