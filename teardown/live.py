"""Watches the client's live users while we send, from the engine's own metrics less ourselves.

Only where `limits.stop_if` names `live_ttft_p95_s` or `live_queue`. One page is read every
`EVERY_S` by the kit's own process, apart from the load; what it says is judged over the last
`SPAN_S`. A page that cannot be read stops nothing, but the run says so.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from teardown.engines.metrics_page import buckets, counters
from teardown.errors import TeardownError
from teardown.http import fetch
from teardown.limits import live_quantile, live_requests
from teardown.settings import StopIf

EVERY_S: Final = 0.4  # two looks within the second in which a passed limit must stop the run
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
        if math.floor(queued) <= self.rule.live_queue:
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
