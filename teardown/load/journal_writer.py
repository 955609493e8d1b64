"""The journal is appended and synced once a second, away from the event loop.

Writing and fsync run in a thread of their own (gevent's native pool), so that a slow disk delays
no read. A line that was handed over is on the disk after at most a second. A full disk is told at
the next flush, and what was written stays.
"""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import gevent
import gevent.event
import gevent.lock
import msgspec

FLUSH_EVERY_S: Final = 1.0


class JournalWriter:
    """Appends lines to one journal; `on_failure` is called once with the OSError of a write."""

    def __init__(self, path: Path, on_failure: Callable[[OSError], None]) -> None:
        self._on_failure = on_failure
        self._lines: list[bytes] = []
        self._encoder = msgspec.json.Encoder()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._has_failed = False
        self._end_torn_line()
        self._one_write = gevent.lock.BoundedSemaphore()
        self._closing = gevent.event.Event()
        self._flusher: gevent.Greenlet = gevent.spawn(self._flush_for_ever)

    def add(self, line: dict[str, Any]) -> None:
        """Hand over one line; it is written with the next flush."""
        self.add_encoded(self.encoded(line))

    def add_encoded(self, line: bytes) -> None:
        """Hand over one line that is JSON already."""
        self._lines.append(line)

    def encoded(self, line: dict[str, Any]) -> bytes:
        """Return `line` as it stands in the journal, without its line break."""
        return self._encoder.encode(line)

    def flush(self) -> bool:
        """Write and sync what was handed over; the caller waits, other greenlets go on.

        Returns whether everything that was ever handed over before this call is on the disk.
        """
        with self._one_write:
            if self._lines and not self._has_failed:
                data = b"".join(line + b"\n" for line in self._lines)
                self._lines.clear()
                try:
                    gevent.get_hub().threadpool.apply(self._write, (data,))
                except OSError as error:
                    self._has_failed = True
                    self._on_failure(error)
            return not self._has_failed

    def close(self) -> None:
        """Flush for the last time and close."""
        self._closing.set()
        self._flusher.join()
        self.flush()
        with contextlib.suppress(OSError):
            os.close(self._file)

    def _flush_for_ever(self) -> None:
        while not self._closing.wait(FLUSH_EVERY_S):
            self.flush()

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]
        os.fsync(self._file)

    def _end_torn_line(self) -> None:
        """Keep a half-written last line of an earlier attempt apart from what follows."""
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")
