"""Slots are handed on in the order of asking, so that waiting is charged to whom it belongs.

gevent's semaphore lets a newcomer overtake those who wait.
"""

from collections import deque
from types import TracebackType

import gevent.event


class Slots:
    """A number of places; `with slots:` waits for one and gives it back. None: no limit."""

    def __init__(self, number: int | None) -> None:
        self._free = number
        self._waiting: deque[gevent.event.Event] = deque()

    def __enter__(self) -> None:
        """Wait for a free place behind all who asked before."""
        if self._free is None:
            return
        if self._free > 0:
            self._free -= 1
            return
        turn = gevent.event.Event()
        self._waiting.append(turn)
        try:
            turn.wait()
        except BaseException:
            if turn.is_set():
                self._give_back()
            else:
                self._waiting.remove(turn)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Hand the place to the first who waits."""
        self._give_back()

    def _give_back(self) -> None:
        if self._waiting:
            self._waiting.popleft().set()
        elif self._free is not None:
            self._free += 1
