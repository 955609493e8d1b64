"""How late the client was, over all reads of a run, in bounded memory."""

import math
from array import array
from collections.abc import Sequence
from typing import Final

KEPT: Final = 1 << 20  # 8 MB; half of it still has 5,000 values beyond the 99th percentile


class Lags:
    """Lags in seconds, in the order in which they came: every k-th is kept, and the largest.

    k is 1 up to `kept` values and doubles whenever there are more, so that what is kept is spread
    evenly over the run.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._limit = kept
        self._kept = array("d")
        self._stride = 1
        self.num = 0
        self.max = -math.inf

    def extend(self, values: Sequence[float]) -> None:
        """Add the lags of further reads."""
        if not values:
            return
        self._kept.extend(values[-self.num % self._stride :: self._stride])
        self.num += len(values)
        self.max = max(self.max, max(values))
        while len(self._kept) > self._limit:
            self._kept = self._kept[::2]
            self._stride *= 2

    @property
    def sample(self) -> Sequence[float]:
        """What was kept; all of it where it is few."""
        return self._kept
