"""Watches the client's live users while we send, from the engine's own metrics less ourselves.

Only where `limits.stop_if` names `live_ttft_p95_s` or `live_queue`. The pages are read by the kit's
own process, apart from the load, and judged over the last `SPAN_S`. A page that cannot be read
stops nothing, but the run says so.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from teardown.engines.metrics_page import buckets, counters
from teardown.errors import TeardownError
from teardown.http import fetch
from teardown.limits import live_quantile, live_requests
from teardown.load.config import Progress
from teardown.settings import StopIf

LOOKS: Final = 2  # in a row, before a queue stops the run
SPAN_S: Final = 15.0  # live answers are judged over this long


class Ours(NamedTuple):
    """What our own load is doing: requests in flight, and when answers began with which TTFT."""

    num_in_flight: int
    answered: Sequence[tuple[float, float]]  # (monotonic time of the first token, TTFT), seconds


@dataclass(slots=True)
class LiveGuard:
    """Says when the live users have had enough; `look` is called again and again.

    urls: one metrics page a replica. ours: what our own load does at this moment.
    """

    engine: str
    urls: Sequence[str]
    rule: StopIf
    ours: Callable[[], Ours]
    read: Callable[[str], str] = fetch
    now: Callable[[], float] = time.monotonic
    notes: set[str] = field(default_factory=set)
    _looks_above: int = 0
    _pages: deque[tuple[float, dict[float, float]]] = field(default_factory=deque)

    @property
    def is_needed(self) -> bool:
        """True where a live limit is set and there is a page to read."""
        return bool(self.urls) and (
            self.rule.live_ttft_p95_s is not None or self.rule.live_queue is not None
        )

    def look(self) -> str | None:
        """Read the pages; return why the run must stop, None while it may go on."""
        try:
            pages = [self.read(url) for url in self.urls]
            return self._queue(pages) or self._latency(pages)
        except TeardownError as error:
            self.notes.add(f"the live users could not be watched throughout: {error}")
            return None

    def _queue(self, pages: Sequence[str]) -> str | None:
        if self.rule.live_queue is None:
            return None
        found = [counters(self.engine, page) for page in pages]
        running = sum(c.running or 0.0 for c in found)
        waiting = sum(c.waiting or 0.0 for c in found)
        _, queued = live_requests(running, waiting, self.ours().num_in_flight)
        # what we count of our own is up to a second old: one look alone may be mistaken
        self._looks_above = (
            self._looks_above + 1 if math.floor(queued) > self.rule.live_queue else 0
        )
        if self._looks_above < LOOKS:
            return None
        return (
            f"about {queued:.0f} live requests wait, and limits.stop_if.live_queue is "
            f"{self.rule.live_queue}"
        )

    def _latency(self, pages: Sequence[str]) -> str | None:
        limit_s = self.rule.live_ttft_p95_s
        if limit_s is None:
            return None
        seen: dict[float, float] = {}
        for page in pages:
            for bound, count in buckets(self.engine, "ttft", page).items():
                seen[bound] = seen.get(bound, 0.0) + count
        if not seen:
            self.notes.add(f"{self.engine} reports no time to first token: it was not watched")
            return None
        now_s = self.now()
        self._pages.append((now_s, seen))
        while len(self._pages) > 2 and self._pages[1][0] <= now_s - SPAN_S:
            self._pages.popleft()
        began_s, first = self._pages[0]
        ours_s = [ttft for at_s, ttft in self.ours().answered if at_s >= began_s]
        found = live_quantile(_difference(first, seen), ours_s)
        if found is None or found <= limit_s:
            return None
        return (
            f"live users' time to first token is up to {found:g} s at the 95th percentile, and "
            f"limits.stop_if.live_ttft_p95_s is {limit_s:g}"
        )


class Shown:
    """The newest progress of our own load, taken on its way to whoever shows it."""

    def __init__(self) -> None:
        self._newest: Progress | None = None

    @property
    def num_in_flight(self) -> int:
        """Our requests in flight at the last report; the most there was between two of them."""
        return self._newest.in_flight if self._newest else 0

    def then(self, show: Callable[[Progress], None]) -> Callable[[Progress], None]:
        """Return `show`, listened to."""

        def both(progress: Progress) -> None:
            self._newest = progress
            show(progress)

        return both


class JournalTail:
    """Reads what the load writes while it writes it: when our answers began, and their TTFT."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._zero_s = 0.0
        self._answered: deque[tuple[float, float]] = deque()

    def answered(self) -> list[tuple[float, float]]:
        """Return (monotonic time of the first token, TTFT) of our answers in the watched span."""
        for line in self._new_lines():
            if line.get("event") == "open":
                self._zero_s = float(line["monotonic_zero"])
            record = line.get("record")
            if isinstance(record, dict) and record.get("ttft_s") is not None:
                at_s = self._zero_s + record["sent_s"] + record["ttft_s"]
                self._answered.append((at_s, float(record["ttft_s"])))
        oldest_s = time.monotonic() - 2 * SPAN_S
        while self._answered and self._answered[0][0] < oldest_s:
            self._answered.popleft()
        return list(self._answered)

    def _new_lines(self) -> list[dict[str, Any]]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                data = file.read()
        except OSError:
            return []
        whole = data.rfind(b"\n") + 1
        self._at += whole
        found = [msgspec.json.decode(line) for line in data[:whole].splitlines() if line.strip()]
        return [line for line in found if isinstance(line, dict)]


def _difference(first: Mapping[float, float], last: Mapping[float, float]) -> dict[float, float]:
    """Return answers by bucket between two pages; a page that went back counts from zero."""
    before = {bound: first.get(bound, 0.0) for bound in last}
    if any(last[bound] < before[bound] for bound in last):
        before = dict.fromkeys(last, 0.0)
    cumulative = {bound: last[bound] - before[bound] for bound in sorted(last)}
    counts, below = {}, 0.0
    for bound, total in cumulative.items():
        counts[bound], below = total - below, total
    return counts
