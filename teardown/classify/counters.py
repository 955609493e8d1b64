"""What the metrics pages say over one run: differences of counters, and gauges of its moments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

from teardown.classify.data import Scrape
from teardown.engines.protocol import Counters

GAUGES = frozenset({"running", "waiting", "kv_usage_ratio"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Counters summed over replicas, as rise over the run; None where no page has them.

    moments: one per scrape with running or waiting requests, gauges of one replica.
    covered_ratio: part of the run that the scrapes span; num_resets: counters that fell (an
    engine restarted inside the run).
    """

    rise: Counters
    moments: list[Counters]
    covered_ratio: float
    num_scrapes: int
    num_resets: int

    @property
    def waiting_moments(self) -> list[Counters]:
        """The moments at which a request waited."""
        return [m for m in self.moments if (m.waiting or 0) > 0]


def see(
    scrapes: Mapping[str, Sequence[Scrape]], start_unix_s: float | None, end_unix_s: float | None
) -> Seen | None:
    """Return what `scrapes` say of the time from start to end; None when there are too few."""
    kept = {url: _within(rows, start_unix_s, end_unix_s) for url, rows in scrapes.items()}
    kept = {url: rows for url, rows in kept.items() if len(rows) >= 2}
    if not kept:
        return None
    total: dict[str, float] = {}
    resets = 0
    for rows in kept.values():
        for item in fields(Counters):
            if item.name in GAUGES:
                continue
            rise, fell = _rise([getattr(row.counters, item.name) for row in rows])
            resets += fell
            if rise is not None:
                total[item.name] = total.get(item.name, 0.0) + rise
    moments = [
        row.counters
        for rows in kept.values()
        for row in rows
        if (row.counters.running or 0) > 0 or (row.counters.waiting or 0) > 0
    ]
    return Seen(
        rise=Counters(**total),
        moments=moments,
        covered_ratio=min(_covered(rows, start_unix_s, end_unix_s) for rows in kept.values()),
        num_scrapes=min(len(rows) for rows in kept.values()),
        num_resets=resets,
    )


def _within(rows: Sequence[Scrape], start: float | None, end: float | None) -> list[Scrape]:
    """Return the rows of the window with the last one before it and the first one after it."""
    ordered = sorted(rows, key=lambda row: row.unix_s)
    if start is None or end is None:
        return ordered
    before = [row for row in ordered if row.unix_s <= start][-1:]
    after = [row for row in ordered if row.unix_s >= end][:1]
    return before + [row for row in ordered if start < row.unix_s < end] + after


def _rise(values: Sequence[float | None]) -> tuple[float | None, int]:
    """Return the sum of rises and the number of falls; a fall starts again from zero."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return None, 0
    rise, falls = 0.0, 0
    for old, new in pairwise(known):
        falls += new < old
        rise += new - old if new >= old else new
    return rise, falls


def _covered(rows: Sequence[Scrape], start: float | None, end: float | None) -> float:
    if start is None or end is None or end <= start:
        return 1.0
    low, high = max(rows[0].unix_s, start), min(rows[-1].unix_s, end)
    return max(0.0, (high - low) / (end - start))
