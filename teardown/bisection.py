"""The search for the largest rate that is kept: doubled or halved until enclosed, then bisected.

Rates are compared by ratio, so the middle of an interval is its geometric mean. Every rate is
rounded to 4 digits: it is part of a run's name.
"""

from typing import Final

from teardown.records import Outcome

MOST_LEVELS: Final = 16
# Halvings below the first rate before the search gives up: 1/64 of it.
MOST_HALVINGS: Final = 6


class Bisection:
    """Asks for rates by `next_rate` and is told what became of each.

    low: the largest rate that was kept; high: the smallest that was missed. They enclose the
    answer to within `precision_ratio` when `next_rate` is None, unless `reason` says why not.
    """

    def __init__(self, first: float, *, precision_ratio: float, most: float | None = None) -> None:
        self._first = first if most is None else min(first, most)
        self._most = most
        self._precision_ratio = precision_ratio
        self._num_told = 0
        self.low: float | None = None
        self.high: float | None = None
        self.reason: str | None = None

    def next_rate(self) -> float | None:
        """Return the rate to try next; None when the search is over."""
        if self.reason is not None:
            return None
        if self._num_told >= MOST_LEVELS and not self._is_enclosed():
            self.reason = f"not enclosed within {MOST_LEVELS} levels"
            return None
        return self._wanted()

    def tell(self, rate: float, outcome: Outcome, why: str) -> None:
        """Take in what became of `rate`; one that cannot be judged ends the search."""
        self._num_told += 1
        if outcome == "kept":
            self.low = rate if self.low is None else max(self.low, rate)
        elif outcome == "missed":
            self.high = rate if self.high is None else min(self.high, rate)
        else:
            self.reason = f"{rate:g} a second could not be judged: {why}"
        if self.low is not None and self.high is not None and self.low >= self.high:
            self.reason = (
                f"{self.low:g} a second was kept and {self.high:g} was missed: the stack's answer "
                "changes from run to run"
            )

    def _wanted(self) -> float | None:
        low, high = self.low, self.high
        if low is None and high is None:
            return _rounded(self._first)
        if high is None and low is not None:
            if self._most is not None and low >= self._most:
                self.reason = f"not tried above {self._most:g} a second, which `limits` allows"
                return None
            return _rounded(2 * low if self._most is None else min(2 * low, self._most))
        if low is None and high is not None:
            if high < self._first / 2**MOST_HALVINGS * 1.001:
                self.reason = f"not kept at any rate down to {high:g} a second"
                return None
            return _rounded(high / 2)
        assert low is not None and high is not None
        middle = _rounded((low * high) ** 0.5)
        return None if self._is_enclosed() or not low < middle < high else middle

    def _is_enclosed(self) -> bool:
        if self.low is None or self.high is None:
            return False
        return self.high <= self.low * (1 + self._precision_ratio)


def _rounded(rate: float) -> float:
    return float(f"{rate:.4g}")
