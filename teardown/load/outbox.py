"""A worker's journal is kept here and sent to the master, in batches, until both disks have it.

Batches are numbered from 1 and acknowledged in order; what is not acknowledged in time is sent
again from the first such batch on.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import gevent

from teardown.load.journal_writer import JournalWriter
from teardown.load.messages import Lines

SEND_EVERY_S: Final = 0.2
# The master acknowledges after its next sync, within about a second and a round trip.
AGAIN_AFTER_S: Final = 3.0
LINES_PER_BATCH: Final = 64  # a quarter of a megabyte with answers of 200 chunks
MOST_UNANSWERED: Final = 256  # below the thousand messages that ZeroMQ queues for a peer
SENT_ON: Final = ("start", "end")  # the master writes an open and a close line of its own


@dataclass(slots=True)
class Batch:
    """Lines under one number, and when they were last sent; None: not yet."""

    message: Lines
    sent_s: float | None = None


class Outbox(JournalWriter):
    """A journal whose lines also go to the master. `send` may fail: the batch is sent again."""

    def __init__(
        self,
        path: Path,
        on_failure: Callable[[OSError], None],
        send: Callable[[Lines], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(path, on_failure)
        self._send, self._clock = send, clock
        self._waiting: list[bytes] = []
        self._unanswered: deque[Batch] = deque()
        self._mailer: gevent.Greenlet = gevent.spawn(self._mail_for_ever)
        self.last = 0

    @property
    def is_delivered(self) -> bool:
        """True when the master has everything on its disk."""
        return not self._waiting and not self._unanswered

    def add(self, line: dict[str, Any]) -> None:
        """Hand over one line, for the disk and for the master."""
        encoded = self.encoded(line)
        self.add_encoded(encoded)
        if line["event"] in SENT_ON:
            self._waiting.append(encoded)

    def acknowledge(self, number: int) -> None:
        """Forget the batches up to `number`: the master has them on its disk."""
        while self._unanswered and self._unanswered[0].message.number <= number:
            self._unanswered.popleft()

    def mail(self) -> None:
        """Send what is new, and again what was not acknowledged in time."""
        while self._waiting and len(self._unanswered) < MOST_UNANSWERED:
            lines, self._waiting = (
                self._waiting[:LINES_PER_BATCH],
                self._waiting[LINES_PER_BATCH:],
            )
            self.last += 1
            self._unanswered.append(Batch(Lines(number=self.last, lines=lines)))
        now = self._clock()
        first = self._unanswered[0].sent_s if self._unanswered else None
        is_late = first is not None and now - first > AGAIN_AFTER_S
        for batch in list(self._unanswered):
            if batch.sent_s is None or is_late:
                batch.sent_s = now
                self._send(batch.message)
                gevent.sleep(0)  # a read that is due goes first

    def finish(self) -> int:
        """Hand the last lines to the mail, which goes on; return the number of the last batch."""
        while self._waiting:
            self.mail()
            if self._waiting:
                gevent.sleep(SEND_EVERY_S)
        return self.last

    def _mail_for_ever(self) -> None:
        while True:
            gevent.sleep(SEND_EVERY_S)
            self.mail()
