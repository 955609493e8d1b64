"""Kernel stamps are wall clock; they become monotonic by the offset sampled at that very read.

The offset is REALTIME - MONOTONIC. Where it has moved by more than a millisecond since the read
before, somebody set the clock between stamp and read: the stamp is dropped, the read's own time is
used, and the event is counted. Nanoseconds inside, seconds outside.
"""

import time
from collections.abc import Callable
from typing import Final, NamedTuple

MOVED_NS: Final = 1_000_000  # DEFINITIONS.md, "Kernel stamps"
SAMPLE_SPAN_NS: Final = 50_000  # a sample that took longer was interrupted: take another
SAMPLE_TRIES: Final = 4

Clock = Callable[[], int]


class Reading(NamedTuple):
    """When a read happened and when its newest segment arrived, monotonic; stamp None: unknown."""

    read_s: float
    stamp_s: float | None


class StampClock:
    """Converts kernel stamps and remembers how far the wall clock has moved."""

    def __init__(
        self, monotonic: Clock = time.monotonic_ns, realtime: Clock = time.time_ns
    ) -> None:
        self._monotonic, self._realtime = monotonic, realtime
        _, self._offset = self._sample()
        self._lowest = self._highest = self._offset
        self.num_moves = 0

    @property
    def moved_s(self) -> float:
        """Largest offset less smallest, over all reads."""
        return (self._highest - self._lowest) / 1e9

    def read(self, wall_ns: int | None) -> Reading:
        """Return the times of a read that just returned with the kernel's stamp `wall_ns`."""
        # this is done for every read: `_sample` is written out for its usual case
        before = self._monotonic()
        wall = self._realtime()
        now = self._monotonic()
        if now - before > SAMPLE_SPAN_NS:
            now, offset = self._sample()
        else:
            offset = wall - (before + now) // 2
        moved, self._offset = offset - self._offset, offset
        if offset < self._lowest:
            self._lowest = offset
        elif offset > self._highest:
            self._highest = offset
        if wall_ns is None:
            return Reading(now / 1e9, None)
        if moved > MOVED_NS or moved < -MOVED_NS:
            self.num_moves += 1
            return Reading(now / 1e9, None)
        stamp = wall_ns - offset
        return Reading(now / 1e9, (stamp if stamp < now else now) / 1e9)

    def _sample(self) -> tuple[int, int]:
        """Return now and the offset, by the tightest of a few samples."""
        best_span, best = None, (0, 0)
        for _ in range(SAMPLE_TRIES):
            before = self._monotonic()
            wall = self._realtime()
            after = self._monotonic()
            if best_span is None or after - before < best_span:
                best_span, best = after - before, (after, wall - (before + after) // 2)
            if after - before <= SAMPLE_SPAN_NS:
                break
        return best
