"""The account of a run: seconds of every request by time class and cause."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from teardown.records import TIME_CLASSES, TimeClass

Seconds = NDArray[np.float64]


class Entry(NamedTuple):
    """One term: what the stack was doing, and what would change it."""

    time_class: TimeClass
    cause: str


class Balance(NamedTuple):
    """Shares of experienced time. by_class with `unexplained` sums to 1; by_entry is its detail."""

    by_class: dict[str, float]
    by_entry: dict[Entry, float]
    overshoot: float


class Ledger:
    """Terms per request. total: seconds from intended to the last content, per request, above 0."""

    def __init__(self, total: Seconds) -> None:
        self.total = total
        self.entries: dict[Entry, Seconds] = {}

    def add(self, time_class: TimeClass, cause: str, seconds: Seconds) -> None:
        """Charge `seconds` (one per request; below 0 counts as 0) to a class and cause."""
        entry = Entry(time_class, cause)
        before = self.entries.get(entry, np.zeros_like(self.total))
        self.entries[entry] = before + np.clip(seconds, 0.0, None)

    def move(self, ratio: float, to: Entry, sources: tuple[TimeClass, ...]) -> None:
        """Move a fraction of every entry of the classes `sources` to the entry `to`."""
        moved = np.zeros_like(self.total)
        for entry, seconds in self.entries.items():
            if entry.time_class in sources:
                moved += seconds * ratio
                self.entries[entry] = seconds * (1 - ratio)
        self.add(to.time_class, to.cause, moved)

    def seconds(self, classes: tuple[TimeClass, ...]) -> float:
        """Return what is charged to `classes`, over all requests."""
        rows = [row for entry, row in self.entries.items() if entry.time_class in classes]
        return float(np.sum(rows))

    def scaled(self) -> dict[Entry, Seconds]:
        """Return the entries, a request's terms scaled down where they exceed its total."""
        covered = self._covered()
        factor = np.divide(
            self.total, covered, out=np.ones_like(covered), where=covered > self.total
        )
        return {entry: seconds * factor for entry, seconds in self.entries.items()}

    def balance(self) -> Balance:
        """Return shares by class and entry, and the overshoot before scaling."""
        whole = float(self.total.sum())
        by_entry = {entry: float(seconds.sum()) / whole for entry, seconds in self.scaled().items()}
        by_class: dict[str, float] = dict.fromkeys(TIME_CLASSES, 0.0)
        for entry, share in by_entry.items():
            by_class[entry.time_class] += share
        by_class = {name: min(max(share, 0.0), 1.0) for name, share in by_class.items()}
        by_class["unexplained"] = min(max(1.0 - sum(by_class.values()), 0.0), 1.0)
        excess = float(np.clip(self._covered() - self.total, 0.0, None).sum())
        return Balance(by_class, by_entry, excess / whole)

    def _covered(self) -> Seconds:
        return np.sum(list(self.entries.values()), axis=0) if self.entries else self.total * 0.0
