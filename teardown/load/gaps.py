"""The median time between chunks: exact for a run of usual size, in bounded memory for any.

A run of a million requests has two hundred million gaps, which would fill gigabytes. Beyond
`EXACT_UP_TO` of them they are counted in bins of equal ratio, 1.5e-5 wide, so that the median is
off by less than 1e-5 of itself.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from teardown.load.columns import ChunkBatch, Numbers, RunColumns

EXACT_UP_TO: Final = 4_000_000
# A positive double is ordered as its bits are: the exponent and 16 bits of the fraction are a bin.
DROPPED_BITS: Final = 36
SHORTEST_S, LONGEST_S = 2.0**-40, 2.0**20


def median_gap_s(run: RunColumns) -> float | None:
    """Return the median time between neighbouring chunks of complete answers, in seconds.

    Chunks that came at one moment have no gap. None where there are no gaps.
    """
    median = RunningMedian()
    for batch in run.chunks():
        median.add(_gaps(batch, ~run.is_failed[batch.rows]))
    return median.value


class RunningMedian:
    """The median of positive numbers that come in parts; each in seconds."""

    def __init__(self, exact_up_to: int = EXACT_UP_TO) -> None:
        self._exact_up_to = exact_up_to
        self._parts: list[Numbers] = []
        self._num_kept = 0
        self._lowest = int(_bins(np.array([SHORTEST_S]))[0])
        self._num_bins = int(_bins(np.array([LONGEST_S]))[0]) - self._lowest + 1
        self._counts: npt.NDArray[np.int64] | None = None

    def add(self, values: Numbers) -> None:
        """Take more numbers, each above 0."""
        self._parts.append(values)
        self._num_kept += len(values)
        if self._num_kept > self._exact_up_to:
            if self._counts is None:
                self._counts = np.zeros(self._num_bins, np.int64)
            for part in self._parts:
                bins = np.clip(_bins(part) - self._lowest, 0, self._num_bins - 1)
                self._counts += np.bincount(bins, minlength=self._num_bins)
            self._parts, self._num_kept = [], 0

    @property
    def value(self) -> float | None:
        """The median of all so far; None of none."""
        if self._counts is None:
            values = np.concatenate([np.empty(0), *self._parts])
            return float(np.median(values)) if len(values) else None
        counts = self._counts.copy()
        for part in self._parts:
            np.add.at(counts, np.clip(_bins(part) - self._lowest, 0, self._num_bins - 1), 1)
        upto = np.cumsum(counts)
        middle = int(np.searchsorted(upto, (upto[-1] + 1) / 2))
        bits = ((middle + self._lowest) << DROPPED_BITS) + (1 << (DROPPED_BITS - 1))
        return float(np.array([bits], np.int64).view(np.float64)[0])


def _bins(values: Numbers) -> npt.NDArray[np.int64]:
    return np.ascontiguousarray(values, np.float64).view(np.int64) >> DROPPED_BITS


def _gaps(batch: ChunkBatch, is_good: npt.NDArray[np.bool_]) -> Numbers:
    """Return the gaps above 0 within the requests of `batch` that are good."""
    if not len(batch.stamps_s):
        return np.empty(0)
    gaps = np.diff(batch.stamps_s)
    starts = batch.offsets[1:-1]
    gaps[starts[(starts > 0) & (starts < len(batch.stamps_s))] - 1] = 0.0  # between two requests
    if not is_good.all():
        gaps[~np.repeat(is_good, batch.lengths)[1:]] = 0.0
    return gaps[gaps > 0]
