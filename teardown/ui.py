"""What a person sees while a verb works: steps, one progress line, time left; on standard error."""

import sys
import time
from typing import TextIO

# Without a terminal a line is printed this often, so that a log shows that work goes on.
HEARTBEAT_S = 15.0


class Console:
    """Steps and progress on `stream`; a live line on a terminal, heartbeat lines elsewhere.

    expected_s: how long everything is expected to take in all; revised by `expect`.
    """

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._quiet = quiet
        self._open_line = False
        self._last_beat = 0.0
        self._started = time.monotonic()
        self._ends_at: float | None = None

    def expect(self, seconds: float | None) -> None:
        """Say how many seconds everything that is left will take; None when unknown."""
        self._ends_at = None if seconds is None else time.monotonic() + seconds

    def step(self, text: str) -> None:
        """Begin a step: one line that stays."""
        self._write(f"{self._clock()}  {text}")

    def say(self, text: str) -> None:
        """Write a result of the present step."""
        self._write("\n".join(f"       {line}" for line in text.splitlines()))

    def progress(self, text: str) -> None:
        """Show how far the present step is, with the time left."""
        now = time.monotonic()
        line = f"       {text}{self._left()}"
        if self._quiet:
            return
        if self._live:
            self._stream.write(f"\r\x1b[2K{line}")
            self._stream.flush()
            self._open_line = True
        elif now - self._last_beat >= HEARTBEAT_S:
            self._last_beat = now
            print(line, file=self._stream, flush=True)

    def _write(self, line: str) -> None:
        if self._quiet:
            return
        if self._open_line:
            self._stream.write("\r\x1b[2K")
            self._open_line = False
        self._last_beat = time.monotonic()
        print(line, file=self._stream, flush=True)

    def _clock(self) -> str:
        return _minutes(time.monotonic() - self._started)

    def _left(self) -> str:
        if self._ends_at is None:
            return ""
        left = self._ends_at - time.monotonic()
        return f" · about {_minutes(left)} left" if left > 0 else " · nearly done"


def _minutes(seconds: float) -> str:
    whole = max(0, round(seconds))
    return f"{whole // 60:2d}:{whole % 60:02d}"
